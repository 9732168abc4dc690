package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kaas.dev/kaas/server/auth/sasl"
)

// scope says where a key may be set besides for the whole broker.
type scope int

const (
	brokerWide scope = iota
	// perListener keys may be set for a listener: listener.name.NAME.KEY, the name in any case.
	perListener
	// perMechanism keys may be set for a mechanism of a listener, too:
	// listener.name.NAME.MECHANISM.KEY.
	perMechanism
	// onlyMechanism keys can be set for nothing else.
	onlyMechanism
)

const listenerPrefix = "listener.name."

// scoped makes a key one that can be set for less than the broker.
func scoped(k configKey, s scope) configKey {
	k.scope = s
	return k
}

// place is what a scoped setting is for: a listener, by its name in upper case, or a
// mechanism of one.
type place struct{ listener, mechanism string }

// placed is one scoped setting.
type placed struct {
	at    place
	key   *configKey
	name  string // as it was given
	value string
}

// splitScoped tells which key a scoped name means, and for what. The names of listeners may
// have dots in them, so that the key is found from the end; the longest counts.
func splitScoped(name string) (k *configKey, at place, ok bool) {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return nil, at, false
	}
	var listener string
	for i := range configKeys {
		c := &configKeys[i]
		if before, found := strings.CutSuffix(rest, "."+c.name); found && c.scope != brokerWide && (k == nil || len(c.name) > len(k.name)) {
			k, listener = c, before
		}
	}
	if k == nil {
		return nil, at, false
	}
	if i := strings.LastIndexByte(listener, '.'); i > 0 && k.scope >= perMechanism {
		if m := strings.ToUpper(listener[i+1:]); slices.Contains(sasl.Names, m) {
			listener, at.mechanism = listener[:i], m
		}
	}
	at.listener = strings.ToUpper(listener)
	return k, at, listenerName.MatchString(listener) && (k.scope != onlyMechanism || at.mechanism != "")
}

// checkName refuses a name that is neither a key nor one for a listener.
func checkName(name string) error {
	k := keyNamed(name)
	if k != nil && k.scope == onlyMechanism {
		return fmt.Errorf("it is set for a mechanism of a listener: %sNAME.MECHANISM.%s", listenerPrefix, name)
	}
	if _, _, ok := splitScoped(name); k == nil && !ok {
		return errUnknownKey
	}
	return nil
}

// setScoped reads the settings of listeners. Each is tried on its own, so that what is wrong
// with one is told by its name.
func (c *Config) setScoped(given map[string]setting) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s := given[name]
		k, at, ok := splitScoped(name)
		if !ok || keyNamed(name) != nil {
			continue
		}
		if endpointNamed(c.Listeners, at.listener) == nil {
			return keyError(name, s.source, fmt.Errorf("listeners has none that is called %s", at.listener))
		}
		scratch := c.clone()
		if err := k.set(scratch, s.value); err != nil {
			return keyError(name, s.source, err)
		}
		if slices.ContainsFunc(c.placed, func(p placed) bool { return p.at == at && p.key == k }) {
			return keyError(name, s.source, errors.New("it is set twice, in upper and lower case"))
		}
		c.placed = append(c.placed, placed{at, k, name, s.value})
		c.settings[name] = s
	}
	return nil
}

// clone is a configuration that keys can be set in.
func (c *Config) clone() *Config {
	out := *c
	return &out
}

// at is the configuration as a listener has it or, with a mechanism, as that has it there.
func (c *Config) at(listener, mechanism string) *Config {
	out := c.clone()
	for _, at := range slices.Compact([]place{{listener, ""}, {listener, mechanism}}) {
		for _, p := range c.placed {
			if p.at == at {
				_ = p.key.set(out, p.value) // tried when it was read
			}
		}
	}
	return out
}

// setAt is the name under which a key is set for a place, or the key's own.
func (c *Config) setAt(key string, at place) string {
	for _, p := range c.placed {
		if p.key.name == key && p.at == at {
			return p.name
		}
	}
	return key
}
