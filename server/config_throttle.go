package server

import (
	"math"
	"slices"
)

// throttleKeys are set only while a broker runs, and told only where they are set. Tools set them
// before they move replicas, and give up if they cannot. Here there are no followers whose bytes
// could be counted, so that they are kept and nothing acts on them.
var throttleKeys = []configKey{
	throttle("follower.replication.throttled.rate", "Without effect: there are no followers."),
	throttle("leader.replication.throttled.rate", "Without effect: there are no followers."),
	throttle("replica.alter.log.dirs.io.max.bytes.per.second", "Without effect: there is one directory."),
}

func throttle(name, doc string) configKey {
	k := number(name, "9223372036854775807", 0, math.MaxInt64, doc, func(*Config, int64) {})
	k.throttle = true
	return k
}

// alterableKey is the key that clients may mean by a name.
func alterableKey(name string) *configKey {
	if k := keyNamed(name); k != nil {
		return k
	}
	if i := slices.IndexFunc(throttleKeys, func(k configKey) bool { return k.name == name }); i >= 0 {
		return &throttleKeys[i]
	}
	return nil
}

// alterableKeys is every key that clients may be told of.
func alterableKeys() []configKey { return slices.Concat(configKeys, throttleKeys) }
