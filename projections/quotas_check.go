package projections

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Quotas by Kafka's names. All are a second's worth, and per broker.
const (
	QuotaProducerBytes = "producer_byte_rate"
	QuotaConsumerBytes = "consumer_byte_rate"
	// QuotaRequestPercentage is of the time of one thread: 200 is two of them.
	QuotaRequestPercentage = "request_percentage"
	// QuotaMutations are partitions made and deleted.
	QuotaMutations   = "controller_mutation_rate"
	QuotaConnections = "connection_creation_rate"
)

// The bounds of all quotas together.
const (
	MaxQuotaEntities = 100_000
	MaxQuotaBytes    = 16 << 20 // of entities' names
)

// Fits is an error where the changes would have quotas be for more entities than may have
// some. It wraps kerr.PolicyViolation. An entity stands in the changes once.
func (q *Quotas) Fits(changes []*QuotasChanged) error {
	n, bytes := 0, 0
	for _, c := range changes {
		if len(c.Set) > 0 && q.Of(c.Entity) == nil {
			n, bytes = n+1, bytes+c.Entity.size()
		}
	}
	if n > 0 && q != nil {
		n += len(q.by)
		for e := range q.by {
			bytes += e.size()
		}
	}
	switch {
	case n > MaxQuotaEntities:
		return fmt.Errorf("%w: there would be quotas for more than %d entities", kerr.PolicyViolation, MaxQuotaEntities)
	case bytes > MaxQuotaBytes:
		return fmt.Errorf("%w: the names of all that quotas are for would take more than %d bytes", kerr.PolicyViolation, MaxQuotaBytes)
	}
	return nil
}

// size is what the entity takes of MaxQuotaBytes.
func (e QuotaEntity) size() int { return len(e.User.Name) + len(e.ClientID.Name) + len(e.IP.Name) }

// quotaMost is the highest value of a quota that must be a whole number, and infinity for one
// that need not be.
var quotaMost = map[string]float64{
	QuotaProducerBytes: math.MaxInt64, QuotaConsumerBytes: math.MaxInt64,
	QuotaRequestPercentage: math.Inf(1), QuotaMutations: math.Inf(1),
	QuotaConnections: math.MaxInt32,
}

// wholeWithin is how far from a whole number one may be that is taken for it.
const wholeWithin = 1e-6

// ValidateQuotaEntity tells who cannot have quotas: nobody, an address together with a user
// or client ID, and what is no address. Kafka takes names of hosts, too; what such a name
// stands for would be looked up by each broker for itself. Errors wrap kerr.InvalidRequest.
func ValidateQuotaEntity(e QuotaEntity) error {
	switch {
	case e == QuotaEntity{}:
		return fmt.Errorf("%w: quotas are for a user, a client ID, both, or an address", kerr.InvalidRequest)
	case e.IP.IsZero() || e.IP == QuotaName{Default: true}:
	default:
		if _, err := netip.ParseAddr(e.IP.Name); err != nil {
			return fmt.Errorf("%w: %s is not an address", kerr.InvalidRequest, quoted(e.IP.Name))
		}
	}
	if !e.IP.IsZero() && (!e.User.IsZero() || !e.ClientID.IsZero()) {
		return fmt.Errorf("%w: quotas of an address are not of a user or client ID, too", kerr.InvalidRequest)
	}
	return nil
}

// ValidateQuota judges one quota of an entity. Errors wrap kerr.InvalidRequest.
func ValidateQuota(e QuotaEntity, key string, value float64) error {
	most, ok := quotaMost[key]
	switch {
	case !ok || e.IP.IsZero() == (key == QuotaConnections):
		return fmt.Errorf("%w: %s has no quota %s", kerr.InvalidRequest, e, quoted(key))
	case math.IsNaN(value) || math.IsInf(value, 0):
		return fmt.Errorf("%w: %s must be a finite number", kerr.InvalidRequest, key)
	case value <= 0:
		return fmt.Errorf("%w: %s must be above 0", kerr.InvalidRequest, key)
	case value > most:
		return fmt.Errorf("%w: %s is too large", kerr.InvalidRequest, key)
	case !math.IsInf(most, 1) && math.Abs(math.Trunc(value+wholeWithin)-value) > wholeWithin:
		return fmt.Errorf("%w: %s must be a whole number", kerr.InvalidRequest, key)
	}
	return nil
}
