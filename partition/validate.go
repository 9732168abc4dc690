package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// validate checks what a producer sent, in the order in which Kafka's answers take
// precedence. It looks at the header and the checksum, never at records.
func (p *Partition) validate(cfg *Config, b batch) error {
	if err := validateForm(b); err != nil {
		return err
	}
	if len(b) > cfg.MaxMessageBytes {
		return fmt.Errorf("%w: batch of %d bytes, max.message.bytes is %d", kerr.MessageTooLarge, len(b), cfg.MaxMessageBytes)
	}
	if got := b.sum(); got != b.crc() {
		return fmt.Errorf("%w: batch says checksum %08x, its bytes give %08x", kerr.CorruptMessage, b.crc(), got)
	}
	if err := validateHeader(b); err != nil {
		return err
	}
	if err := validateTime(cfg, b); err != nil {
		return err
	}
	if int64(len(b)) > cfg.SegmentBytes {
		return fmt.Errorf("%w: batch of %d bytes, segment.bytes is %d", kerr.RecordListTooLarge, len(b), cfg.SegmentBytes)
	}
	return nil
}

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %s", kerr.InvalidRecord, fmt.Sprintf(format, a...))
}

// minRecordSet is the least length of what has ever been sent as records.
const minRecordSet = 14

// ErrNotABatch says that what was sent is not one whole batch of magic 2.
var ErrNotABatch = errors.New("not one record batch")

// validateForm admits exactly one batch of magic 2, as Produce has asked since version 3.
func validateForm(b batch) error {
	switch {
	case len(b) < batchPrefix+5:
		return fmt.Errorf("%w: %w: %d bytes", kerr.InvalidRecord, ErrNotABatch, len(b))
	case b.length() < minRecordSet:
		return fmt.Errorf("%w: batch length %d is less than that of any", kerr.CorruptMessage, b.length())
	case b.magic() > 2:
		return fmt.Errorf("%w: there is no magic %d", kerr.CorruptMessage, b.magic())
	case b.magic() != 2:
		return fmt.Errorf("%w: %w: magic %d, want 2", kerr.InvalidRecord, ErrNotABatch, b.magic())
	case b.length() < batchHeader-batchPrefix:
		return fmt.Errorf("%w: batch length %d is less than its header", kerr.CorruptMessage, b.length())
	case b.size() > int64(len(b)):
		return fmt.Errorf("%w: %w: one of %d bytes is cut off at %d", kerr.InvalidRecord, ErrNotABatch, b.size(), len(b))
	case b.size() < int64(len(b)):
		return fmt.Errorf("%w: %w: %d bytes follow it", kerr.InvalidRecord, ErrNotABatch, int64(len(b))-b.size())
	case b.base() != 0:
		return invalid("the batch begins at offset %d, which is not for its sender to say", b.base())
	}
	return nil
}

func validateHeader(b batch) error {
	codec := b.attrs() & attrCodec
	switch {
	case codec > 4:
		return invalid("compression codec %d is unknown", codec)
	case b.attrs()&attrControl != 0:
		return invalid("control batches are not for clients")
	case b.count() <= 0:
		return invalid("record count is %d", b.count())
	case b.lastDelta() == math.MaxInt32 || b.count() != b.lastDelta()+1:
		return invalid("record count is %d, last offset delta %d", b.count(), b.lastDelta())
	case b.producer() >= 0 && (b.sequence() < 0 || b.prodEpoch() < 0):
		return invalid("producer %d with epoch %d and sequence %d", b.producer(), b.prodEpoch(), b.sequence())
	case b.producer() < 0 && b.attrs()&attrTransactional != 0:
		return invalid("transactional batch without a producer ID")
	}
	return nil
}
