package server

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sort"
	"strings"

	"github.com/magiconair/properties"
)

// Sources are where configuration comes from. --set wins over the environment,
// which wins over the file, which wins over the default.
type Sources struct {
	File    string   // path of a server.properties, or empty
	Environ []string // NAME=value, as os.Environ gives it
	Sets    []string // key=value, as given with --set
}

const envPrefix = "KAAS_"

// serviceLink matches what Kubernetes puts into the environment of every pod when
// a Service is named kaas, without anybody's asking: those are not configuration.
var serviceLink = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)$`)

// LoadConfig reads the sources. Every error names the key and where it came from;
// an unknown name is one, wherever it stands.
func LoadConfig(src Sources) (*Config, error) {
	given := map[string]setting{}
	for _, load := range []func(Sources, map[string]setting) error{fromFile, fromEnv, fromSets} {
		if err := load(src, given); err != nil {
			return nil, err
		}
	}
	c := &Config{HandshakeTime: handshakeTime, settings: map[string]setting{}, topicDefaults: map[string]string{}, Logging: new(slog.LevelVar)}
	for _, k := range configKeys {
		s, ok := given[k.name]
		if !ok {
			s.value = c.defaultOf(&k)
		}
		if err := k.set(c, s.value); err != nil {
			return nil, keyError(k.name, s.source, err)
		}
		c.settings[k.name] = s
	}
	if err := c.setUnits(given); err != nil {
		return nil, err
	}
	if err := c.setScoped(given); err != nil {
		return nil, err
	}
	for _, check := range []func(*Config) (string, error){checkListeners, checkSASL, checkTimes, checkGroups, checkPerIP} {
		if key, err := check(c); err != nil {
			return nil, keyError(key, c.settings[key].source, err)
		}
	}
	c.Logging.Set(c.LogLevel)
	return c, nil
}

// defaultOf is a key's default, beside what was loaded before it.
func (c *Config) defaultOf(k *configKey) string {
	if k.lease != "" && c.Election == ElectionKubernetes {
		return k.lease
	}
	return k.def
}

func keyError(key, source string, err error) error {
	if source == "" {
		source = "its default"
	}
	return fmt.Errorf("config %s (from %s): %w", key, source, err)
}

var errUnknownKey = errors.New("unknown name")

func keyNamed(name string) *configKey {
	for i := range configKeys {
		if configKeys[i].name == name {
			return &configKeys[i]
		}
	}
	return nil
}

func fromFile(src Sources, given map[string]setting) error {
	if src.File == "" {
		return nil
	}
	// ${…} is not expanded: a value means what it says.
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := l.LoadFile(src.File)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	for _, name := range p.Keys() {
		if err := checkName(name); err != nil {
			return keyError(name, src.File, err)
		}
		v, _ := p.Get(name)
		given[name] = setting{v, src.File}
	}
	return nil
}

func fromEnv(src Sources, given map[string]setting) error {
	env := append([]string(nil), src.Environ...)
	sort.Strings(env) // the first error named is always the same one
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || serviceLink.MatchString(rest) {
			continue
		}
		// The environment has no way to write the hyphens of a mechanism.
		key := strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(rest, "_", ".")), ".scram.sha.", ".scram-sha-")
		if err := checkName(key); err != nil {
			return keyError(key, "environment "+name, err)
		}
		given[key] = setting{value, "environment " + name}
	}
	return nil
}

func fromSets(src Sources, given map[string]setting) error {
	for _, kv := range src.Sets {
		name, value, ok := strings.Cut(kv, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return keyError(name, "--set", errors.New("is not key=value"))
		}
		if err := checkName(name); err != nil {
			return keyError(name, "--set", err)
		}
		given[name] = setting{value, "--set"}
	}
	return nil
}
