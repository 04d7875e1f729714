"""From a start to the optimum: warm-up, averaged MasGrad, correcting reads, predicted remainder."""
