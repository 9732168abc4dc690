package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"os"
)

func TestOptions(t *testing.T) {
	env := map[string]string{"KAAS_OPERATOR_BOOTSTRAP_SERVERS": "env:1", "KAAS_OPERATOR_RESYNC": "3s", "KAAS_OPERATOR_NAMESPACES": "a, b", "KAAS_OPERATOR_LEADER_ELECTION": "false"}
	o, err := parse([]string{"--resync", "7s", "--resync", "5s", "--log-level=WARN"}, func(k string) string { return env[k] }, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.bootstrap != "env:1" || o.resync != 5*time.Second || !slices.Equal(o.namespaces, []string{"a", "b"}) || o.elect || o.logLevel != slog.LevelWarn {
		t.Errorf("%+v", o)
	}
	if o, err = parse([]string{"--namespaces=a", "--namespaces=b,c", "--reserved-users=CN=a,O=b; admin"}, func(string) string { return "" }, &bytes.Buffer{}); err != nil || !slices.Equal(o.namespaces, []string{"b", "c"}) || !slices.Equal(o.reserved, []string{"CN=a,O=b", "admin"}) || o.leaseName != "kaas-operator" {
		t.Errorf("%+v, %v", o, err)
	}
	for flag, want := range map[string]string{"--resync=1ms": "--resync", "--workers=0": "--workers", "--lease=x": "lease", "--leader-election-name=": "--leader-election-name", "x": "is no flag"} {
		if _, err := parse([]string{flag}, func(string) string { return "" }, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	env["KAAS_OPERATOR_WORKERS"] = "many"
	if _, err := parse(nil, func(k string) string { return env[k] }, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "KAAS_OPERATOR_WORKERS") {
		t.Error(err)
	}
}

// The chart has the definitions as they are here.
func TestChartHasTheDefinitions(t *testing.T) {
	files, err := filepath.Glob("crds/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		ours, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join("../helm/kaas-operator", file))
		if err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%s is another one in the chart: run go generate ./api/... (%v)", file, err)
		}
	}
}

// The chart takes the times that the operator takes, and no others.
func TestChartTakesTheTimes(t *testing.T) {
	text, err := os.ReadFile("../helm/kaas-operator/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct{ Pattern string }
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	for value, flag := range map[string]string{"resync": "resync", "maxRetry": "max-retry", "rewritePasswords": "rewrite-passwords", "lease": "lease"} {
		pattern := regexp.MustCompile(schema.Properties[value].Pattern)
		for given, right := range map[string]bool{
			"1s": true, "30s": true, "2m": true, "1h": true, "1m30s": true, "1m0s": true, "0m1s": true, "1.5h": true, "0.5m1s": true, "10s0.5s": true,
			"0s": false, "0": false, "100ms": false, "0.5s": false, "0m0s": false, "1": false, "often": false, "": false, "-1s": false, "10us": false,
		} {
			_, err := parse([]string{"--" + flag, given}, none, &bytes.Buffer{})
			if (err == nil) != right || pattern.MatchString(given) != right {
				t.Errorf("%s: %s: the operator says %v, the chart takes it: %v", value, given, err, pattern.MatchString(given))
			}
		}
	}
}
