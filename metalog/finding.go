package metalog

import (
	"errors"

	"kaas.dev/kaas/internal/substrate"
)

// Finding is something that a check found wrong, or worth a word.
type Finding struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`
	Fault  bool   `json:"fault"` // false: explained, nothing is at risk
	Detail string `json:"detail"`
}

// The kinds of findings in a stream.
const (
	KindUnreadable   = "unreadable"      // the volume refuses to list or read it
	KindName         = "name"            // a name of ours that does not parse, or names the wrong kind of file
	KindStream       = "stream-missing"  // a stream's directory, or all of its entries
	KindEpochMissing = "epoch-missing"   // an epoch's directory
	KindEpochEmpty   = "epoch-empty"     // an epoch's directory without a claim
	KindClaimMissing = "claim-missing"   // beside entries
	KindClaim        = "claim-damaged"   //
	KindEntry        = "entry-damaged"   //
	KindEntryMissing = "entry-missing"   // or empty
	KindChain        = "chain-broken"    // an entry that does not follow what it says
	KindOwner        = "entry-foreign"   // an entry that the epoch's owner did not write
	KindState        = "state-wrong"     // a base that is not the fold of what is before it
	KindEvent        = "event-unknown"   // a note: of a newer build
	KindPruned       = "history-partial" // a note: what is left of pruned history
	KindDisowned     = "entry-disowned"  // a note: what a fenced owner wrote and its successor did not continue from
	KindHead         = "head-unreadable" // a note: HEAD is a hint
)

// kindOf is the kind of what an error of reading tells.
func kindOf(err error, damaged, missing string) string {
	var d *substrate.DamageError
	switch {
	case errors.As(err, &d):
		return damaged
	case isNotExist(err):
		return missing
	}
	return KindUnreadable
}
