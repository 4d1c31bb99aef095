package majority

// mutation is a deliberate fault of the nodes or of the client that drives the rules.
type mutation int8

const (
	sound mutation = iota

	// Of the scripts.
	noQuarantine
	markerOnly
	runOnly
	nobodyYields
	lateEnters
	lateRenewals
	leavesDoNotRetire
	leavesDoNotTell
	forceKeepsTokens
	undecidedReassert
	recordKeepsItsToken

	// Of the client.
	placesDiffer
	nothingGivenBack
	yieldInTwo
	silenceIsForEver
	tellsRevive
	forceTwoOnly
)
