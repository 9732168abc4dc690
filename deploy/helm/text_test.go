package helm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"
)

// withNames have NAME wherever a value may be one, and FULL where it has to begin with a letter.
var withNames = map[string]string{
	"kaas": `
nameOverride: "FULL"
fullnameOverride: "FULL"
storage: {existingClaim: "CLAIM", storageClassName: "NAME", volumeName: "NAME", annotations: {a: "NAME"}}
external: {enabled: true, type: LoadBalancer, loadBalancerClass: "NAME", annotations: {"NAME": "NAME"}}
listeners: {clients: {protocol: SSL}}
tls: {secretName: "NAME"}
serviceAccount: {name: "NAME", annotations: {a: "NAME"}}
serviceMonitor: {enabled: true, labels: {a: "NAME"}}
service: {annotations: {a: "NAME"}}
nodeSelector: {a: "NAME"}
priorityClassName: "NAME"
podAnnotations: {a: "NAME"}
podLabels: {a: "NAME"}`,
	operatorChart: `
bootstrapServers: "a:1"
nameOverride: "FULL"
fullnameOverride: "FULL"
commandConfig: {secretName: "NAME"}
namespaces: ["FULL"]
serviceAccount: {name: "CLAIM", annotations: {a: "NAME"}}
podMonitor: {enabled: true, labels: {a: "NAME"}}
nodeSelector: {a: "NAME"}
priorityClassName: "NAME"
podAnnotations: {a: "NAME"}
podLabels: {a: "NAME"}`,
}

// What is called on, null or 123 is called so in every object, as any other name is there: YAML
// takes these for something else where they have no quotes.
func TestNamesAreText(t *testing.T) {
	const plain = "zzz"
	for chart, text := range withNames {
		for _, claim := range []string{"", "NAME"} {
			called := func(name, full string) string {
				v := strings.NewReplacer("NAME", name, "FULL", full).Replace(strings.ReplaceAll(text, "CLAIM", claim))
				b := &strings.Builder{}
				for _, o := range manifestsIn(t, name, name, chart, values(t, v)) {
					// The sum of what has the name in it.
					unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "annotations", "checksum/settings")
					fmt.Fprintf(b, "%#v\n", o.Object) // strings in quotes, numbers and nil without
				}
				return b.String()
			}
			for _, name := range []string{"on", "off", "yes", "no", "y", "n", "true", "false", "null"} {
				if got, want := called(name, name), strings.ReplaceAll(called(plain, plain), plain, name); got != want {
					t.Errorf("%s: %s is\n%s\nwant\n%s", chart, name, got, want)
				}
			}
			for _, name := range []string{"123", "1e3", "0x1f", "0o17", "0.5"} {
				if got, want := called(name, "kaas"), strings.ReplaceAll(called(plain, "kaas"), plain, name); got != want {
					t.Errorf("%s: %s is\n%s\nwant\n%s", chart, name, got, want)
				}
			}
		}
	}
}

// No key stands twice, whatever the values have: strict readers of YAML refuse that, and of the
// others each has its own that wins. What the chart selects by and sums up stays.
func TestNoKeyTwice(t *testing.T) {
	all := variants(t)
	all["keys of the chart's"] = values(t, `
podLabels: {app.kubernetes.io/name: mine, app.kubernetes.io/component: mine, team: mine}
podAnnotations: {checksum/settings: mine, team: mine}
serviceMonitor: {enabled: true, labels: {app.kubernetes.io/instance: mine, helm.sh/chart: mine, team: mine}}
storage: {annotations: {helm.sh/resource-policy: mine, team: mine}}`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		files, err := render(all[name], "")
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if !strings.HasSuffix(file, ".yaml") {
				continue
			}
			docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
			for {
				doc, err := docs.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := sigs.UnmarshalStrict(doc, &map[string]any{}); err != nil {
					t.Errorf("%s: %s: %v", name, file, err)
				}
			}
		}
	}
	objects := manifests(t, all["keys of the chart's"])
	set := named(t, objects, "StatefulSet", release)
	labels, _, err := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	selector, _, err := unstructured.NestedStringMap(set.Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) == 0 {
		t.Fatal(selector, err)
	}
	for key, value := range selector {
		if labels[key] != value {
			t.Errorf("pods have %s %s, and are selected by %s", key, labels[key], value)
		}
	}
	notes, _, err := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "annotations")
	if err != nil || notes["checksum/settings"] == "mine" || notes["team"] != "mine" || labels["team"] != "mine" {
		t.Errorf("pods have the annotations %v and the labels %v: %v", notes, labels, err)
	}
	// These are the user's.
	if got := named(t, objects, "PersistentVolumeClaim", release).GetAnnotations(); got["helm.sh/resource-policy"] != "mine" || got["team"] != "mine" {
		t.Errorf("the claim has the annotations %v", got)
	}
	if got := named(t, objects, "ServiceMonitor", release).GetLabels(); got["app.kubernetes.io/instance"] != "mine" || got["team"] != "mine" || got["app.kubernetes.io/name"] != "kaas" {
		t.Errorf("the ServiceMonitor has the labels %v", got)
	}
}
