"""The rules, one file a family of operators; importing them fills the table of `framework.xla.lower`."""

from framework.xla.rules import attention as attention
from framework.xla.rules import boxes as boxes
from framework.xla.rules import control as control
from framework.xla.rules import conv as conv
from framework.xla.rules import crf as crf
from framework.xla.rules import elementwise as elementwise
from framework.xla.rules import indexing as indexing
from framework.xla.rules import movement as movement
from framework.xla.rules import norm as norm
from framework.xla.rules import optim as optim
from framework.xla.rules import ragged as ragged
from framework.xla.rules import random as random
from framework.xla.rules import reduce as reduce
from framework.xla.rules import resize as resize
from framework.xla.rules import sampling as sampling
from framework.xla.rules import shape as shape
from framework.xla.rules import table as table
