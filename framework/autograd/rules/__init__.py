"""Gradient rules, one line an operator, one file a family (as in framework/native/ops/)."""

from framework.autograd.rules import attention as attention
from framework.autograd.rules import boxes as boxes
from framework.autograd.rules import chain as chain
from framework.autograd.rules import conv as conv
from framework.autograd.rules import crf as crf
from framework.autograd.rules import detection as detection
from framework.autograd.rules import elementwise as elementwise
from framework.autograd.rules import indexing as indexing
from framework.autograd.rules import masks as masks
from framework.autograd.rules import matching as matching
from framework.autograd.rules import matmul as matmul
from framework.autograd.rules import movement as movement
from framework.autograd.rules import norm as norm
from framework.autograd.rules import optim as optim
from framework.autograd.rules import overlap as overlap
from framework.autograd.rules import pool as pool
from framework.autograd.rules import proposals as proposals
from framework.autograd.rules import quantized as quantized
from framework.autograd.rules import ragged as ragged
from framework.autograd.rules import random as random
from framework.autograd.rules import recurrent as recurrent
from framework.autograd.rules import reduce as reduce
from framework.autograd.rules import regions as regions
from framework.autograd.rules import resize as resize
from framework.autograd.rules import shape as shape
from framework.autograd.rules import softmax as softmax
