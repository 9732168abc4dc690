package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// unitKeys say in longer units what another key says in milliseconds, for properties that were
// written for Kafka. They act where the other is not given, the first of those that are.
var unitKeys = []configKey{
	inUnits("log.retention.minutes", "", "log.retention.ms", time.Minute, "log.retention.ms in minutes, where that is not given."),
	inUnits("log.retention.hours", "168", "log.retention.ms", time.Hour, "The same in hours, where neither is given."),
	inUnits("log.roll.hours", "168", "log.roll.ms", time.Hour, "log.roll.ms in hours, where that is not given."),
}

func inUnits(name, def, of string, unit time.Duration, doc string) configKey {
	return configKey{name: name, def: def, kind: kmsg.ConfigTypeInt, unit: unit, unitOf: of, doc: doc, set: func(_ *Config, s string) error {
		if s = strings.TrimSpace(s); s == "" && def == "" {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 32)
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a whole number", s)
		case n == 0 || n < 0 && of == "log.roll.ms":
			return fmt.Errorf("%d is no time", n)
		}
		return nil
	}}
}

// millis is a value of a key in units, in milliseconds. Below 0 it is for ever.
func (k *configKey) millis(value string) string {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || n < 0 {
		return "-1"
	}
	return strconv.FormatInt(min(n, math.MaxInt64/k.unit.Milliseconds())*k.unit.Milliseconds(), 10)
}

// setUnits lets keys in units act.
func (c *Config) setUnits(given map[string]setting) error {
	for i := range unitKeys {
		k := &unitKeys[i]
		s, ok := given[k.name]
		if _, over := given[k.unitOf]; !ok || over || s.value == "" {
			continue
		}
		if err := keyNamed(k.unitOf).set(c, k.millis(s.value)); err != nil {
			return keyError(k.name, s.source, err)
		}
		given[k.unitOf] = setting{} // the next in line does not act
	}
	return nil
}

// unitSynonyms are the keys in units that stand behind one in milliseconds: those that are
// given, and of the last its default.
func (c *Config) unitSynonyms(of string) (syn []configValue) {
	for i := range unitKeys {
		k := &unitKeys[i]
		if k.unitOf != of {
			continue
		}
		if s := c.settings[k.name]; s.source != "" {
			value := strings.TrimSpace(s.value)
			syn = append(syn, configValue{name: k.name, value: value, millis: k.millis(value), source: kmsg.ConfigSourceStaticBrokerConfig})
		}
		if k.def != "" {
			syn = append(syn, configValue{name: k.name, value: k.def, millis: k.millis(k.def), source: kmsg.ConfigSourceDefaultConfig})
		}
	}
	return syn
}
