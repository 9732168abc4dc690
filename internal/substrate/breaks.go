package substrate

// Breaks takes single rules of the fence away. It exists for the tests of the
// tests alone: a fault sweep that stays green under any of them proves nothing.
// A broker never sets it.
type Breaks struct {
	NoSeal             bool // a claimant does not seal the old owner
	NoCheck            bool // acknowledge without a Check
	CheckBeforeVisible bool // Check, then publish, then acknowledge
	CheckByOpen        bool // Check by opening the token instead of renaming it
	ListBeforeSeal     bool // take the base from a listing made before sealing
	NoPlug             bool // take the listing's newest entry as it is
	TwoStepClaim       bool // mkdir the epoch, then write the claim into it
	SessionBeforeEntry bool // a reader looks at the session first
	ReusePosition      bool // publish other bytes after an ambiguous rename
	NoDirSync          bool // leave out the directory's fsync
}
