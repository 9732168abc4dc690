package server

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/tlsconf"
)

// tlsKeys are those of all listeners; each may stand for one alone, too. They are judged
// where the listeners are known: see checkListeners.
func tlsKeys() (keys []configKey) {
	kinds := map[tlsconf.Kind]kmsg.ConfigType{tlsconf.Text: kmsg.ConfigTypeString, tlsconf.List: kmsg.ConfigTypeList, tlsconf.Password: kmsg.ConfigTypePassword}
	for _, k := range tlsconf.Keys {
		keys = append(keys, configKey{name: k.Name, def: k.Default, kind: kinds[k.Kind], doc: k.Doc, scope: perListener,
			set: func(*Config, string) error { return nil }})
	}
	return keys
}

// handshakeTime is how long a client may take for the handshake of TLS.
const handshakeTime = 10 * time.Second

// listenerSetting is a setting as it is for one listener: its own, that of all, or the
// default. name is what it was given under.
func (c *Config) listenerSetting(listener, key string) (value, name string, given bool) {
	return c.settingAt(place{listener, ""}, key)
}

// settingAt is the same for a mechanism of a listener.
func (c *Config) settingAt(at place, key string) (value, name string, given bool) {
	for _, at := range []place{at, {at.listener, ""}} {
		for _, p := range c.placed {
			if p.key.name == key && p.at == at {
				return p.value, p.name, true
			}
		}
	}
	s := c.settings[key]
	if s.source == "" {
		return keyNamed(key).def, key, false
	}
	return s.value, key, true
}

// setTLS reads the settings of a listener that speaks TLS.
func (c *Config) setTLS(ep *Endpoint) (key string, err error) {
	if !ep.Secure() {
		return "", nil
	}
	ep.TLS, err = tlsconf.Parse(ep.Name, ep.SASL(), func(key string) (string, string, bool) { return c.listenerSetting(ep.Name, key) })
	return blamed(err, "listeners")
}

// blamed is what a setting's error is about.
func blamed(err error, otherwise string) (key string, cause error) {
	var named *tlsconf.KeyError
	if errors.As(err, &named) {
		return named.Key, named.Err
	}
	return otherwise, err
}

// openTLS reads what the settings of the listeners name, by the listener's name.
func (c *Config) openTLS() (map[string]*tlsconf.Store, error) {
	stores := map[string]*tlsconf.Store{}
	for i := range c.Listeners {
		ep := &c.Listeners[i]
		if ep.TLS == nil {
			continue
		}
		var err error
		if stores[ep.Name], err = tlsconf.Open(ep.TLS, ep.Name == c.InterBroker); err != nil {
			key, cause := blamed(err, "listeners")
			return nil, keyError(key, c.settings[key].source, cause)
		}
	}
	return stores, nil
}
