package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth/sasl"
	"kaas.dev/kaas/server/quota"
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
	weakestFirst := func(a, b string) int {
		return cmp.Or(rank(given[a].source)-rank(given[b].source), strings.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(given), weakestFirst) {
		s := given[name]
		k, at, ok := splitScoped(name)
		if !ok || keyNamed(name) != nil {
			continue
		}
		if at.listener, ok = c.listenerCalled(at.listener, s.source); !ok {
			return keyError(name, s.source, fmt.Errorf("listeners has none that is called %s", at.listener))
		}
		scratch := c.clone()
		if err := k.set(scratch, s.value); err != nil {
			return keyError(name, s.source, err)
		}
		if i := slices.IndexFunc(c.placed, func(p placed) bool { return p.at == at && p.key == k }); i >= 0 {
			weaker := c.placed[i].name
			if rank(c.settings[weaker].source) == rank(s.source) {
				return keyError(name, s.source, errors.New("it is set twice, in upper and lower case"))
			}
			delete(c.settings, weaker)
			c.placed = slices.Delete(c.placed, i, i+1)
		}
		c.placed = append(c.placed, placed{at, k, name, s.value})
		c.settings[name] = s
	}
	return nil
}

// listenerCalled is the listener that a setting means. The environment has dots for the
// underscores of its name, too.
func (c *Config) listenerCalled(name, source string) (string, bool) {
	if endpointNamed(c.Listeners, name) != nil {
		return name, true
	}
	for _, ep := range c.Listeners {
		if rank(source) == ofEnvironment && strings.ReplaceAll(ep.Name, "_", ".") == name {
			return ep.Name, true
		}
	}
	return name, false
}

// The ranks of sources: the higher wins.
const (
	ofFile = iota
	ofEnvironment
	ofSets
)

func rank(source string) int {
	switch {
	case source == "--set":
		return ofSets
	case strings.HasPrefix(source, "environment "):
		return ofEnvironment
	}
	return ofFile
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

// inListeners takes what is set of listeners while the broker runs. Listeners that this broker
// has not, others may have. Their names are in lower case, as Kafka looks for them: a name in
// two cases would be two settings of one.
func (c *Config) inListeners(set map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k, at, ok := splitScoped(name)
		if !ok || !k.live() || keyNamed(name) != nil || name != strings.ToLower(name) {
			continue
		}
		i := slices.IndexFunc(c.Listeners, func(e Endpoint) bool { return e.Name == at.listener })
		if i < 0 {
			continue
		}
		own := c.clone()
		own.MaxConnections, own.MaxConnectionRate = c.Listeners[i].most, c.Listeners[i].rate
		_ = k.set(own, set[name]) // checked when it was set
		c.Listeners = slices.Clone(c.Listeners)
		c.Listeners[i].most, c.Listeners[i].rate = own.MaxConnections, own.MaxConnectionRate
	}
}

// checkLiveScoped judges what is to be set of listeners. As in Kafka each lets in one
// connection at least, and it need not be there.
func checkLiveScoped(c *Config, name, value string) error {
	k, at, _ := splitScoped(name)
	if !k.live() {
		return notLive(name)
	}
	if name != strings.ToLower(name) {
		return fmt.Errorf("%w: %s: while brokers run a listener's name is in lower case here", kerr.InvalidRequest, name)
	}
	if i := strings.LastIndexByte(at.listener, '.'); slices.Contains(sasl.Names, at.listener[i+1:]) && i > 0 && endpointNamed(c.Listeners, at.listener) == nil {
		return fmt.Errorf("%w: %s: it is of a listener, and of none of its mechanisms", kerr.InvalidRequest, name)
	}
	own := c.clone()
	own.MaxConnections, own.MaxConnectionRate = math.MaxInt64, quota.Unlimited
	err := k.set(own, value)
	if err == nil && (own.MaxConnections < 1 || own.MaxConnectionRate < 1) {
		err = errors.New("a listener lets in one connection at least")
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", kerr.InvalidRequest, name, err)
	}
	return nil
}

// scopedValue is a setting of a listener or of a mechanism of one, as clients are shown it:
// as in Kafka they are told that it cannot be changed, though it may be that it can.
func (c *Config) scopedValue(view *projections.Cluster, name string) (configValue, bool) {
	k, _, ok := splitScoped(name)
	if !ok || keyNamed(name) != nil {
		return configValue{}, false
	}
	v := configValue{name: name, kind: k.kind, doc: k.doc, readOnly: true, synonyms: c.dynamicSynonyms(view, name, k)}
	if s := c.settings[name]; s.source != "" {
		v.synonyms = append(v.synonyms, configValue{name: name, value: strings.TrimSpace(s.value), source: kmsg.ConfigSourceStaticBrokerConfig})
	}
	if k.scope != onlyMechanism {
		v.synonyms = append(v.synonyms, c.brokerSynonyms(view, k)...)
	}
	return shownConfig(v), true
}

// scopedNames are the settings of listeners and of their mechanisms that there are, each once.
func (c *Config) scopedNames(view *projections.Cluster) (names []string) {
	for _, p := range c.placed {
		names = append(names, p.name)
	}
	for _, broker := range []string{"", c.id()} {
		for name := range view.BrokerConfigs(broker) {
			if k, _, ok := splitScoped(name); ok && k.live() {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
