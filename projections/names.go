package projections

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// MaxTopicName is the most bytes of a topic's name.
const MaxTopicName = 249

// ValidateTopicName returns an error wrapping kerr.InvalidTopicException unless
// name is 1 to 249 of letters, digits, '.', '_' and '-', and neither "." nor "..".
func ValidateTopicName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: topic name %.300q %s", kerr.InvalidTopicException, name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case name == "." || name == "..":
		return bad("is reserved")
	case len(name) > MaxTopicName:
		return bad(fmt.Sprintf("is longer than %d bytes", MaxTopicName))
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return bad("has other characters than letters, digits, '.', '_' and '-'")
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// collisionKey is equal for names that differ only in '.' against '_'. Metric
// names of Kafka's tools cannot tell such topics apart.
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// CheckCollision returns an error wrapping kerr.InvalidTopicException if a living
// topic has a different name that differs from this one only in '.' against '_'.
func (c *Cluster) CheckCollision(name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	key := collisionKey(name)
	for other := range c.names {
		if other != name && len(other) == len(name) && collisionKey(other) == key {
			return fmt.Errorf("%w: topic name %q collides with existing topic %q", kerr.InvalidTopicException, name, other)
		}
	}
	return nil
}
