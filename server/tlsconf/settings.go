package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Lookup gives a setting of a listener: its value, the name it was given under, and whether
// it was given at all. Otherwise the value is the default and the name the key's own.
type Lookup func(key string) (value, name string, given bool)

// KeyError blames a setting. Its text has no secret.
type KeyError struct {
	Key string // the name it was given under
	Err error
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// secret is a value that nothing prints; nil if there is none.
type secret func() string

func (s secret) value() string {
	if s == nil {
		return ""
	}
	return s()
}

// source is where a keystore or a truststore comes from.
type source struct {
	kind     string
	location string
	password secret
	keyPass  secret
	key      secret // PEM in the setting itself, as chain is
	chain    secret
}

// files are what the location names: of PEM there may be several, for keys and certificates are
// often kept in a file each.
func (s *source) files() []string {
	if s.kind == "PEM" {
		return items(s.location)
	}
	if s.location == "" {
		return nil
	}
	return []string{s.location}
}

func (s *source) given() bool { return s.location != "" || s.chain != nil }

// Settings are those of one listener, or of a client, checked.
type Settings struct {
	Listener string // empty for a client
	Rules    *Rules
	// Notes are what deserves a warning at start.
	Notes []string

	keys, trust source
	clientAuth  tls.ClientAuthType
	min, max    uint16
	suites      []uint16
	checkHost   bool
	client      bool              // there need not be a key
	names       map[string]string // what each key was given under
}

// ClientAuth reports whether clients are asked for a certificate.
func (s *Settings) ClientAuth() bool { return s.clientAuth != tls.NoClientCert }

// Parse reads a listener's settings; sasl says that its clients are known by SASL, and then
// ssl.client.auth is heard for this listener alone.
func Parse(listener string, sasl bool, look Lookup) (*Settings, error) {
	s := &Settings{Listener: listener, names: map[string]string{}}
	if err := s.parse(sasl, look); err != nil {
		return nil, err
	}
	return s, nil
}

// ParseClient reads the settings of who only asks others: whoever has a keystore shows what is
// in it when asked, and without one nothing is shown.
func ParseClient(look Lookup) (*Settings, error) {
	s := &Settings{client: true, names: map[string]string{}}
	if err := s.parse(false, look); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Settings) parse(sasl bool, look Lookup) error {
	values := map[string]string{}
	present := map[string]bool{}
	for _, k := range Keys {
		v, name, given := look(k.Name)
		if k.Kind != Password {
			v = strings.TrimSpace(v)
		}
		values[k.Name], s.names[k.Name], present[k.Name] = v, name, given
	}
	hide := func(key string) secret {
		if v := values[key]; present[key] {
			return func() string { return v }
		}
		return nil
	}
	s.keys = source{kind: strings.ToUpper(values[keystoreType]), location: values[keystoreLocation],
		password: hide(keystorePassword), keyPass: hide(keyPassword), key: hide(keystoreKey), chain: hide(keystoreChain)}
	s.trust = source{kind: strings.ToUpper(values[trustType]), location: values[trustLocation],
		password: hide(trustPassword), chain: hide(trustCerts)}
	if sasl && s.names[clientAuth] == clientAuth {
		if present[clientAuth] && !strings.EqualFold(values[clientAuth], "none") {
			s.Notes = append(s.Notes, "ssl.client.auth is not for listeners with SASL: give it as "+
				"listener.name."+strings.ToLower(s.Listener)+".ssl.client.auth")
		}
		values[clientAuth] = "none"
	}
	for _, step := range []struct {
		key string
		set func(string) error
	}{
		{keystoreType, s.checkKeystore}, {trustType, s.checkTruststore}, {clientAuth, s.setClientAuth},
		{protocolKey, checkProtocol}, {enabledProtocols, s.setVersions}, {cipherSuites, s.setSuites},
		{mappingRules, s.setRules}, {endpointCheck, s.setEndpointCheck},
	} {
		if err := step.set(values[step.key]); err != nil {
			return s.blame(step.key, err)
		}
	}
	return nil
}

// blame names the key under which it was given, unless err does already.
func (s *Settings) blame(key string, err error) error {
	var named *KeyError
	if errors.As(err, &named) {
		return err
	}
	return &KeyError{s.names[key], err}
}

func storeType(s string) error {
	if s != "PEM" && s != "PKCS12" && s != "JKS" {
		return fmt.Errorf("%q is not PEM, PKCS12 or JKS", s)
	}
	return nil
}

func (s *Settings) checkKeystore(string) error {
	k := &s.keys
	pem := k.kind == "PEM"
	if err := storeType(k.kind); err != nil {
		return err
	}
	switch {
	case k.key != nil && !pem:
		return s.blame(keystoreKey, fmt.Errorf("needs ssl.keystore.type=PEM, which is %s", k.kind))
	case k.key != nil && k.chain == nil:
		return s.blame(keystoreKey, errors.New("needs ssl.keystore.certificate.chain"))
	case k.key == nil && k.chain != nil:
		return s.blame(keystoreChain, errors.New("needs ssl.keystore.key"))
	case k.key != nil && k.location != "":
		return s.blame(keystoreKey, fmt.Errorf("and %s: only one of them can be", s.names[keystoreLocation]))
	case pem && k.password.value() != "":
		return s.blame(keystorePassword, errors.New("is not for PEM: ssl.key.password is"))
	case k.key != nil:
		return nil
	case k.location == "" && k.password.value() != "":
		return s.blame(keystorePassword, errors.New("needs ssl.keystore.location"))
	case k.location == "" && s.client:
		return nil
	case k.location == "":
		return s.blame(keystoreLocation, fmt.Errorf("is needed: listener %s has no key", s.Listener))
	case !pem && k.password == nil:
		return s.blame(keystorePassword, fmt.Errorf("is needed for %s", k.location))
	}
	return nil
}

func (s *Settings) checkTruststore(string) error {
	t := &s.trust
	pem := t.kind == "PEM"
	if err := storeType(t.kind); err != nil {
		return err
	}
	switch {
	case t.chain != nil && !pem:
		return s.blame(trustCerts, fmt.Errorf("needs ssl.truststore.type=PEM, which is %s", t.kind))
	case t.chain != nil && t.location != "":
		return s.blame(trustCerts, fmt.Errorf("and %s: only one of them can be", s.names[trustLocation]))
	case pem && t.password.value() != "":
		return s.blame(trustPassword, errors.New("is not for PEM"))
	case t.location == "" && t.password.value() != "":
		return s.blame(trustPassword, errors.New("needs ssl.truststore.location"))
	}
	return nil
}

func (s *Settings) setClientAuth(v string) error {
	switch strings.ToLower(v) {
	case "none":
		s.clientAuth = tls.NoClientCert
	case "requested":
		s.clientAuth = tls.VerifyClientCertIfGiven
	case "required":
		s.clientAuth = tls.RequireAndVerifyClientCert
	default:
		return fmt.Errorf("%q is not none, requested or required", v)
	}
	if s.ClientAuth() && !s.client && !s.trust.given() {
		s.Notes = append(s.Notes, s.names[clientAuth]+"="+strings.ToLower(v)+" without a truststore takes a client's certificate of every authority that this host trusts")
	}
	return nil
}

func (s *Settings) setRules(v string) (err error) {
	s.Rules, err = ParseRules(v)
	return err
}

func (s *Settings) setEndpointCheck(v string) error {
	s.checkHost = v != ""
	if s.checkHost && !strings.EqualFold(v, "https") {
		return fmt.Errorf("%q is neither https nor empty", v)
	}
	return nil
}

func checkProtocol(v string) error {
	if !slices.Contains([]string{"TLS", "TLSv1.2", "TLSv1.3"}, v) {
		return fmt.Errorf("%q is not TLS, TLSv1.2 or TLSv1.3", v)
	}
	return nil
}

func (s *Settings) setVersions(v string) error {
	for _, name := range items(v) {
		var version uint16
		switch name {
		case "TLSv1.2":
			version = tls.VersionTLS12
		case "TLSv1.3":
			version = tls.VersionTLS13
		case "TLSv1.1", "TLSv1", "SSLv3":
			return fmt.Errorf("%s is not safe any more: TLSv1.2 and TLSv1.3 are spoken", name)
		default:
			return fmt.Errorf("%q is not TLSv1.2 or TLSv1.3", name)
		}
		if s.min == 0 || version < s.min {
			s.min = version
		}
		s.max = max(s.max, version)
	}
	if s.max == 0 {
		return errors.New("names no version")
	}
	return nil
}

// items are those of a list.
func items(v string) (out []string) {
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// setSuites narrows the versions to those that the suites are for. Go does not choose
// among the suites of TLS 1.3.
func (s *Settings) setSuites(v string) error {
	names := items(v)
	if len(names) == 0 {
		return nil
	}
	has13 := 0
	for _, name := range names {
		suite := suiteNamed(name)
		switch {
		case suite == nil && slices.ContainsFunc(tls.InsecureCipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name }):
			return fmt.Errorf("%s is not safe any more", name)
		case suite == nil:
			return fmt.Errorf("%q is none that is known: %s", name, strings.Join(suiteNames(), ", "))
		case slices.Contains(suite.SupportedVersions, tls.VersionTLS13):
			has13++
		default:
			s.suites = append(s.suites, suite.ID)
		}
	}
	if has13 > 0 && has13 < 3 && s.max == tls.VersionTLS13 {
		s.Notes = append(s.Notes, s.names[cipherSuites]+" names some suites of TLS 1.3: it is spoken with all of them")
	}
	if has13 == 0 {
		s.max = min(s.max, tls.VersionTLS12)
	}
	if len(s.suites) == 0 {
		s.min = max(s.min, tls.VersionTLS13)
	}
	if s.min > s.max {
		return errors.New("names no suite of the versions in ssl.enabled.protocols")
	}
	return nil
}

// suiteNamed finds a suite by the name that the registry and Java have for it.
func suiteNamed(name string) *tls.CipherSuite {
	for _, c := range tls.CipherSuites() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func suiteNames() (names []string) {
	for _, c := range tls.CipherSuites() {
		names = append(names, c.Name)
	}
	return names
}
