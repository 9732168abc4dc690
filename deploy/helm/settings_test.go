package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kaas.dev/kaas/server"
)

// pod is what the kubelet would know of one.
type pod struct {
	index  int
	hostIP string
	limit  int64 // bytes of memory
}

const podIP = "2001:db8::5"

func (p pod) field(path string) (string, bool) {
	v, ok := map[string]string{
		"metadata.name":      fmt.Sprintf("kaas-%d", p.index),
		"metadata.namespace": namespace,
		"status.hostIP":      p.hostIP,
		"status.podIP":       podIP,
		"metadata.labels['apps.kubernetes.io/pod-index']": strconv.Itoa(p.index),
	}[path]
	return v, ok
}

var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// environment is that of the broker's container: references are to what stands before, as for
// the kubelet. What comes from a Secret is secret.
func (p pod) environment(t *testing.T, container map[string]any, secret string) (env map[string]string) {
	t.Helper()
	env = map[string]string{}
	list, _, _ := unstructured.NestedSlice(container, "env")
	for _, e := range list {
		e := e.(map[string]any)
		name := e["name"].(string)
		value, _, _ := unstructured.NestedString(e, "value")
		if path, ok, _ := unstructured.NestedString(e, "valueFrom", "fieldRef", "fieldPath"); ok {
			if value, ok = p.field(path); !ok {
				t.Fatalf("%s is of %s, which is not known here", name, path)
			}
		}
		if resource, ok, _ := unstructured.NestedString(e, "valueFrom", "resourceFieldRef", "resource"); ok {
			if divisor, _, _ := unstructured.NestedString(e, "valueFrom", "resourceFieldRef", "divisor"); resource != "limits.memory" || divisor != "1Mi" {
				t.Fatalf("%s is of %s in %s, which is not known here", name, resource, divisor)
			}
			value = strconv.FormatInt((p.limit+1<<20-1)>>20, 10) // the kubelet rounds up
		}
		if _, ok, _ := unstructured.NestedMap(e, "valueFrom", "secretKeyRef"); ok {
			value = secret
		}
		env[name] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			if v, ok := env[ref[2:len(ref)-1]]; ok {
				return v
			}
			t.Errorf("%s: %s is not known there", name, ref)
			return ref
		})
	}
	return env
}

// settings are what the broker in a pod makes of what it is given there.
func (p pod) settings(t *testing.T, v map[string]any, secret string) (*server.Config, map[string]string) {
	t.Helper()
	objects := manifests(t, v)
	set := named(t, objects, "StatefulSet", fullname(v))
	containers, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	env := p.environment(t, containers[0].(map[string]any), secret)
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	text, _, _ := unstructured.NestedString(named(t, objects, "ConfigMap", fullname(v)).Object, "data", "server.properties")
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := server.LoadConfig(server.Sources{File: file, Environ: environ})
	if err != nil {
		t.Fatalf("the broker refuses: %v\n%s%v", err, text, environ)
	}
	return c, env
}

const jaas = `org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="x";`

// Whatever the values, the broker takes what its pod is given, and every pod's clients and
// peers are told where that pod is.
func TestTheBrokerTakesIt(t *testing.T) {
	inside := func(c *server.Config, full, domain string, index, brokers, clients int) []string {
		host := fmt.Sprintf("kaas-%d.%s-brokers.%s.svc.%s", index, full, namespace, domain)
		peer := host
		if !c.Listeners[0].Secure() { // certificates are for names
			peer = podIP
		}
		return []string{fmt.Sprintf("BROKERS=%s:%d", peer, brokers), fmt.Sprintf("CLIENTS=%s:%d", host, clients)}
	}
	for name, want := range map[string]struct {
		brokers, clients int
		outside          string
		service          string
	}{
		"default":      {9091, 9092, "", ""},
		"single-node":  {9091, 9092, "", ""},
		"nodeport":     {9091, 9092, "EXTERNAL=2001:db8::9:31102", ""},
		"loadbalancer": {9091, 9092, "", "EXTERNAL=kaas-external-12:9094"},
		"tls":          {9091, 9093, "EXTERNAL=kaas-12.example.com:9094", ""},
		"sasl":         {9091, 9092, "", ""},
		"full":         {19091, 19092, "EXTERNAL=nodes.example.com:30512", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := variants(t)[name]
			c, env := pod{12, "2001:db8::9", 2 << 30}.settings(t, v, jaas)
			domain := "cluster.local"
			if name == "full" {
				domain = "k8s.example.com"
			}
			all := inside(c, fullname(v), domain, 12, want.brokers, want.clients)
			if want.outside != "" {
				all = append(all, want.outside)
			}
			if got := told(c.Advertised); got != strings.Join(all, " ") {
				t.Errorf("advertised: %s, want %s", got, strings.Join(all, " "))
			}
			if services := told(c.Services); services != want.service {
				t.Errorf("asks for %s, want %s", services, want.service)
			}
			if c.NodeID != 12 || c.InterBroker != "BROKERS" || !strings.HasPrefix(c.LogDir, "/var/lib/kaas/") || c.HTTP != ":8080" {
				t.Errorf("node %d, %s among brokers, on %s, health at %s", c.NodeID, c.InterBroker, c.LogDir, c.HTTP)
			}
			if most := env["GOMEMLIMIT"]; most != "2048000000" {
				t.Errorf("the Go runtime stays below %s of %d bytes", most, 2<<30)
			}
		})
	}
}

// The page for operators has the values that are tried here.
func TestThePageHasTriedValues(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	tried, err := os.ReadFile("testdata/values/sasl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(tried)) {
		if !strings.Contains(string(page), "\n    "+line) {
			t.Errorf("it does not have %q", line)
		}
	}
}

// Who wants it is told addresses, or names, whatever the protocol.
func TestWhatIsAdvertisedIsAChoice(t *testing.T) {
	for choice, want := range map[string]string{
		"clients: {advertise: ip}":                             "BROKERS=2001:db8::5:9091 CLIENTS=2001:db8::5:9092",
		"clients: {advertise: ip}, brokers: {advertise: name}": "BROKERS=kaas-3.kaas-brokers.events.svc.cluster.local:9091 CLIENTS=2001:db8::5:9092",
	} {
		c, _ := pod{3, "192.0.2.1", 1 << 30}.settings(t, values(t, "listeners: {"+choice+"}"), "")
		if got := told(c.Advertised); got != want {
			t.Errorf("%s: %s, want %s", choice, got, want)
		}
	}
}

// An IPv6 address may stand in brackets, and with the broker's number in it.
func TestOutsideByIPv6(t *testing.T) {
	for host, want := range map[string]string{
		"2001:db8::1":      "2001:db8::1:31093",
		"[2001:db8::1]":    "2001:db8::1:31093",
		"[2001:db8::{id}]": "2001:db8::3:31093",
	} {
		c, _ := pod{3, "192.0.2.1", 1 << 30}.settings(t, values(t, "external: {enabled: true, host: '"+host+"'}"), "")
		if got := told(c.Advertised); !strings.HasSuffix(got, " EXTERNAL="+want) {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func told(eps []server.Endpoint) string {
	var all []string
	for _, e := range eps {
		all = append(all, fmt.Sprintf("%s=%s:%d", e.Name, e.Host, e.Port))
	}
	return strings.Join(all, " ")
}

// Settings arrive as they were written: numbers of any size, what a properties file has its own
// meaning for, and those of the chart that may be another.
func TestSettingsArrive(t *testing.T) {
	c, _ := pod{0, "192.0.2.1", 1 << 30}.settings(t, values(t, `
election: volume
settings:
  num.partitions: 12
  socket.request.max.bytes: 2000000000
  auto.create.topics.enable: false
  broker.rack: "a\\b=c: #d"
  advertised.listeners.wait.ms: 0
  cluster.id: !!str 1e3
`), "")
	if c.NumPartitions != 12 || c.RequestMaxBytes != 2_000_000_000 || c.AutoCreateTopics || c.Rack != `a\b=c: #d` || c.ClusterID != "1e3" || c.Election != server.ElectionVolume {
		t.Errorf("partitions %d, requests %d, making topics %v, rack %q, cluster %q, election %s",
			c.NumPartitions, c.RequestMaxBytes, c.AutoCreateTopics, c.Rack, c.ClusterID, c.Election)
	}
	if c.AdvertisedWait != 0 {
		t.Errorf("0 became the chart's own %s", c.AdvertisedWait)
	}
}

// Nothing that a user gives is too little to win over what the chart gives.
func TestEmptySettingsArrive(t *testing.T) {
	for _, value := range []string{"0", "false", `""`, "other"} {
		objects := manifests(t, values(t, `
listeners: {clients: {protocol: SSL}}
tls: {secretName: kaas-tls}
settings: {ssl.truststore.location: `+value+`}`))
		text, _, _ := unstructured.NestedString(named(t, objects, "ConfigMap", release).Object, "data", "server.properties")
		if line := "\nssl.truststore.location=" + strings.Trim(value, `"`) + "\n"; !strings.Contains(text, line) {
			t.Errorf("%s: there is no line %q:\n%s", value, line, text)
		}
	}
}

// The role lets a broker do what it does with the API, and names what it does it to. Without a
// need of the API there is neither a role nor a token.
func TestNoMoreRightsThanNeeded(t *testing.T) {
	v := variants(t)
	// An empty list of names would be every Service.
	v["stopped"] = values(t, "replicas: 0\nexternal: {enabled: true, type: LoadBalancer}")
	v["stopped, by the volume"] = values(t, "replicas: 0\nelection: volume\nexternal: {enabled: true, type: LoadBalancer}")
	for name, want := range map[string]string{
		"stopped":                "create leases [] get,update leases [kaas-controller]",
		"stopped, by the volume": "",
		"default":                "create leases [] get,update leases [kaas-controller]",
		"single-node":            "",
		"nodeport":               "create leases [] get,update leases [kaas-controller]",
		"loadbalancer":           "create leases [] get,update leases [kaas-controller] get services [kaas-external-0 kaas-external-1 kaas-external-2 kaas-external-3]",
		"full":                   "create leases [] get,update leases [events-controller]",
	} {
		var got []string
		token := false
		for _, o := range manifests(t, v[name]) {
			switch o.GetKind() {
			case "StatefulSet":
				token, _, _ = unstructured.NestedBool(o.Object, "spec", "template", "spec", "automountServiceAccountToken")
			case "ClusterRole", "ClusterRoleBinding":
				t.Errorf("%s: there is a %s", name, o.GetKind())
			case "Role":
				got = append(got, rights(o)...)
			}
		}
		if all := strings.Join(got, " "); all != want || token != (want != "") {
			t.Errorf("%s: may %s, and has a token: %v; want %s", name, all, token, want)
		}
	}
}

// rights are the rules of a role, each in a line.
func rights(role *unstructured.Unstructured) (all []string) {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, r := range rules {
		r := r.(map[string]any)
		list := func(field string) []string { l, _, _ := unstructured.NestedStringSlice(r, field); return l }
		all = append(all, fmt.Sprintf("%s %s %v", strings.Join(list("verbs"), ","), strings.Join(list("resources"), ","), list("resourceNames")))
	}
	return all
}
