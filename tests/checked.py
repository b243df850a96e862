"""What checks annotations: an int may stand where a float is promised, as in Python's typing."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
