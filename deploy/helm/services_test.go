package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// outside are the Services of single brokers, each in a line.
func outside(objects []*unstructured.Unstructured) (all []string) {
	for _, o := range objects {
		if o.GetLabels()["kaas.dev/service"] != "external" {
			continue
		}
		text := func(fields ...string) string { s, _, _ := unstructured.NestedString(o.Object, fields...); return s }
		ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
		port := ports[0].(map[string]any)
		unready, _, _ := unstructured.NestedBool(o.Object, "spec", "publishNotReadyAddresses")
		all = append(all, fmt.Sprint(o.GetName(), " ", text("spec", "type"), " ", text("spec", "externalTrafficPolicy"), " of ",
			text("spec", "selector", "statefulset.kubernetes.io/pod-name"), " ", port["port"], " ", port["targetPort"], " ", port["nodePort"], " ",
			o.GetAnnotations()["external-dns.alpha.kubernetes.io/hostname"], " unready too: ", unready))
	}
	return all
}

// Each broker has a Service of its own, which leads to it alone, ready or not: who asks there
// wants what that broker leads.
func TestOneServiceForEachBroker(t *testing.T) {
	for name, want := range map[string][]string{
		"default": nil,
		"nodeport": {
			"kaas-external-0 NodePort Local of kaas-0 9094 external 31090  unready too: true",
			"kaas-external-1 NodePort Local of kaas-1 9094 external 31091  unready too: true",
			"kaas-external-2 NodePort Local of kaas-2 9094 external 31092  unready too: true",
		},
		"tls": {
			"kaas-external-0 LoadBalancer Cluster of kaas-0 9094 external <nil> kaas-0.example.com unready too: true",
			"kaas-external-1 LoadBalancer Cluster of kaas-1 9094 external <nil> kaas-1.example.com unready too: true",
			"kaas-external-2 LoadBalancer Cluster of kaas-2 9094 external <nil> kaas-2.example.com unready too: true",
		},
	} {
		if got := outside(manifests(t, variants(t)[name])); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A policy lets brokers alone reach the listener of brokers, and nobody what is not listed.
func TestWhoMayConnect(t *testing.T) {
	ports := func(name string) (all []string) {
		for _, o := range manifests(t, variants(t)[name]) {
			if o.GetKind() != "NetworkPolicy" {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "ingress")
			for _, r := range rules {
				r := r.(map[string]any)
				from, _, _ := unstructured.NestedSlice(r, "from")
				to, _, _ := unstructured.NestedSlice(r, "ports")
				all = append(all, fmt.Sprint(to[0].(map[string]any)["port"], " ", from))
			}
		}
		return all
	}
	brokers := "brokers [map[podSelector:map[matchLabels:map[app.kubernetes.io/component:broker app.kubernetes.io/instance:kaas app.kubernetes.io/name:kaas]]]]"
	everyPod := "[map[namespaceSelector:map[]]]"
	for name, want := range map[string][]string{
		"default":     {brokers, "clients " + everyPod, "http " + everyPod},
		"nodeport":    {brokers, "clients " + everyPod, "http " + everyPod, "external [map[ipBlock:map[cidr:0.0.0.0/0]] map[ipBlock:map[cidr:::/0]]]"},
		"single-node": nil,
		"full": {brokers, "clients [map[podSelector:map[matchLabels:map[uses:events]]]]",
			"http [map[namespaceSelector:map[matchLabels:map[kubernetes.io/metadata.name:monitoring]]]]"},
	} {
		if got := ports(name); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A pod that is told to stop has the time that its broker may need, and a change of the settings
// makes new pods.
func TestPodsFollowTheirSettings(t *testing.T) {
	sum := func(text string) string {
		s, _, _ := unstructured.NestedString(named(t, manifests(t, values(t, text)), "StatefulSet", release).Object,
			"spec", "template", "metadata", "annotations", "checksum/settings")
		return s
	}
	same, other := sum("settings: {num.partitions: 3}"), sum("settings: {num.partitions: 4}")
	if same == "" || same == other || same != sum("settings: {num.partitions: 3}\nreplicas: 5\nimage: {tag: next}") {
		t.Errorf("%s and %s", same, other)
	}
}

// The notes say where to begin, and name what stays when the release goes.
func TestNotes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                               {"kaas.events.svc.cluster.local:9092", "user 65532", "claim kaas stays"},
		"external: {enabled: true}":      {"kaas.dev/service=external"},
		"storage: {existingClaim: mine}": {"claim mine"},
		"podSecurityContext: {runAsUser: 1000650000}": {"run as user 1000650000, who"},
		"podSecurityContext: {runAsUser: 0}":          {"run as user 0, who"},
		"podSecurityContext: {runAsUser: null}":       {"the user that the cluster gives them, who"},
	} {
		files, err := render(values(t, text), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if notes := files["kaas/templates/NOTES.txt"]; !strings.Contains(notes, w) {
				t.Errorf("%q: they do not say %q:\n%s", text, w, notes)
			}
		}
	}
}
