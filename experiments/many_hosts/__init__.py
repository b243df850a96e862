"""One mixture on the devices of many hosts, which goes on after one of them has died."""
