"""The experiments of Dubey et al. (2020), with exact schedules beside the published one."""
