package majority
