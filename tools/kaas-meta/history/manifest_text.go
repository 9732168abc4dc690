package history

import (
	"fmt"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
)

// describeManifest says an event of a manifest in words.
func describeManifest(ev metalog.Event) (string, error) {
	fact, err := partition.DecodeEvent(ev)
	if err != nil {
		return "", err
	}
	switch e := fact.(type) {
	case *partition.SegmentAdded:
		return fmt.Sprintf("segment %s begins", e.SegmentID), nil
	case *partition.SegmentEnded:
		return fmt.Sprintf("the newest segment ends at offset %d with %d bytes%s", e.End, e.Size, abortedText(e.Aborted)), nil
	case *partition.LeaderEpochStarted:
		return fmt.Sprintf("leader epoch %d begins at offset %d", e.Epoch, e.Start), nil
	case *partition.RecoveryPointAdvanced:
		return fmt.Sprintf("durable up to offset %d, byte %d%s", e.Offset, e.Pos, abortedText(e.Aborted)), nil
	case *partition.LogStartAdvanced:
		return fmt.Sprintf("the log begins at offset %d", e.Offset), nil
	case *partition.SegmentsReplaced:
		return fmt.Sprintf("%d segment(s) from %s on replaced by %d", len(e.Old), firstSegment(e.Old), len(e.New)), nil
	case *partition.LogCleaned:
		return fmt.Sprintf("compacted up to offset %d", e.Offset), nil
	}
	return partition.Describe(ev)
}

func abortedText(a *partition.AbortedSum) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(", %d aborted transaction(s)", a.Count)
}

func firstSegment(ids []partition.SegmentID) string {
	if len(ids) == 0 {
		return "none"
	}
	return ids[0].String()
}
