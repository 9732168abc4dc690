package livetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The examples are taken as they are, and become ready.
func testExamples(t *testing.T, w *world) {
	w.createTopic(t, "Legacy_Events.v1", 3, configs{"retention.ms": "86400000"})
	var all []*unstructured.Unstructured
	files, err := filepath.Glob("../examples/*.yaml")
	must(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(t, err)
		for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096); ; {
			obj := &unstructured.Unstructured{}
			if err := d.Decode(obj); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			obj.SetNamespace(namespace)
			if err := client.WithFieldValidation(w.c, "Strict").Create(t.Context(), obj); err != nil {
				t.Fatalf("%s: %s: %v", file, obj.GetName(), err)
			}
			all = append(all, obj)
		}
	}
	resources := 0
	for _, obj := range all {
		if obj.GroupVersionKind().Group != "kaas.dev" {
			continue
		}
		resources++
		eventually(t, obj.GetName()+" is ready", func() string {
			if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err.Error()
			}
			conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
			if len(conditions) != 1 || conditions[0].(map[string]any)["status"] != "True" {
				return fmt.Sprint(conditions)
			}
			return ""
		})
	}
	if resources != 5 {
		t.Errorf("%d examples", resources)
	}
	w.awaitTopic(t, "legacy-events", "Legacy_Events.v1", wanted{partitions: 3, configs: configs{"retention.ms": "86400000"}, reason: "InSync"})
	w.awaitIn(t, "shipping", "change-me-please")
	w.secrets = append(w.secrets, "change-me-please", string(w.secret(t, "billing")["password"]))
	for _, obj := range all {
		w.remove(t, obj)
	}
	w.awaitTopic(t, "orders", "orders", wanted{gone: true})
	w.awaitTopic(t, "legacy-events", "Legacy_Events.v1", wanted{partitions: 3, configs: configs{"retention.ms": "86400000"}})
	w.deleteTopic(t, "Legacy_Events.v1")
	for _, name := range []string{"billing", "shipping", "reports"} {
		w.awaitUser(t, name, name, has{})
	}
}
