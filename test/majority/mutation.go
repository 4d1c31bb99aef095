package majority

// mutation is a deliberate fault of the nodes, or of the client that drives the rules.
type mutation int8

const (
	sound mutation = iota

	// Of the scripts.
	noQuarantine
	markerOnly // a run id is not compared
	runOnly    // a node without a record of itself has lost nothing
	nobodyYields
	holdersAreNotAsked // when they tell their final place
	lateEnters
	lateRenewals
	leavesDoNotRetire
	leavesDoNotTell
	forgetsInSilence
	forceKeepsTokens
	forceRaisesFar // by more than the longest lease
	votesEndEarly
	tailDoesNotCount
	blindAreDropped
	evictionsTake        // a vote
	votersAreNotTold     // of their eviction
	evictionsLeaveNoMark // against late requests
	evictionsBind        // a call that is decided
	evictionsRevive      // a call that has left

	// Of the client.
	placesDiffer
	nothingGivenBack
	yieldInTwo
	silenceIsForEver
	tellsRevive
	forcesUnheard   // while the call waits
	evictedHereOnly // at the node that told it
	votesDoNotListen
	upAsksNothing
	ghostsStay
	retiresNothing
	tellsTheDead
)
