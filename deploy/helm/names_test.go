package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Releases and tags whose names are cut, with what may not be at an end of a name coming to stand
// there.
var (
	toughReleases = []string{
		"kaas", "kaas-operator", "a", "r2d2", strings.Repeat("a", 53), strings.Repeat("a", 44) + "-b", strings.Repeat("a", 43) + "--b",
		strings.Repeat("a", 44) + ".b",
	}
	// What YAML takes for something else than text where it has no quotes.
	otherwise   = []string{"on", "off", "yes", "no", "y", "n", "true", "false", "null", "123", "1e3", "0x1f", "0o17", "2024-01-01"}
	oddReleases = []string{"my.rel", "1kaas", "1", "9.kaas", strings.Repeat("a", 20) + "." + strings.Repeat("b", 23) + "--b"}
	toughTags   = []string{
		"1.2", "_", "_x", "foo-", "foo.", "-" /* no tag */, ".x" /* nor this */, strings.Repeat("t", 62) + "-x", strings.Repeat("t", 61) + "._x",
		strings.Repeat("T", 128), "__--" + strings.Repeat(".", 70) + "z",
	}
)

// wrongNames are what Kubernetes would not take of the names and labels of objects, the oldest that
// the charts name no less than the newest.
func wrongNames(objects []*unstructured.Unstructured) (wrong []string) {
	for _, o := range objects {
		rule := validation.IsDNS1123Subdomain
		switch o.GetKind() {
		case "Service":
			rule = validation.IsDNS1035Label
		case "StatefulSet":
			rule = validation.IsDNS1123Label
		}
		for _, w := range rule(o.GetName()) {
			wrong = append(wrong, fmt.Sprintf("%s %q: %s", o.GetKind(), o.GetName(), w))
		}
		labels, _, err := unstructured.NestedStringMap(o.Object, "metadata", "labels")
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s %q: %v", o.GetKind(), o.GetName(), err))
		}
		for name, value := range labels {
			for _, w := range validation.IsValidLabelValue(value) {
				wrong = append(wrong, fmt.Sprintf("%s, label %s %q: %s", o.GetKind(), name, value, w))
			}
		}
	}
	return wrong
}

// Names stay within what Kubernetes takes, whatever the release is called, or the chart refuses.
func TestReleasesNames(t *testing.T) {
	for chart, v := range map[string]map[string]any{
		"kaas":        values(t, "external: {enabled: true}"),
		operatorChart: values(t, operatorValues["least"]),
	} {
		names := slices.Concat(toughReleases, oddReleases)
		if chart == operatorChart {
			names = append(names, otherwise...)
		}
		for _, name := range names {
			_, err := renderAs(name, chart, v, "")
			if chart == "kaas" && slices.Contains(oddReleases, name) { // no Service is called so
				if err == nil || !strings.Contains(err.Error(), "fullnameOverride") {
					t.Errorf("%s: release %s: %v", chart, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: release %s: %v", chart, name, err)
				continue
			}
			for _, w := range wrongNames(manifestsAs(t, name, chart, v)) {
				t.Errorf("%s: release %s: %s", chart, name, w)
			}
		}
	}
	// With a name of its own it is anybody's.
	if wrong := wrongNames(manifestsAs(t, "9.kaas", "kaas", values(t, "fullnameOverride: events"))); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// Whatever the image's tag is, it is refused, or makes a label.
func TestTags(t *testing.T) {
	for chart, rest := range map[string]string{"kaas": "", operatorChart: ", bootstrapServers: 'a:1'"} {
		for _, tag := range toughTags {
			v := values(t, fmt.Sprintf("{image: {tag: %q}%s}", tag, rest))
			if strings.ContainsAny(tag[:1], "-.") {
				if _, err := renderChart(chart, v, ""); err == nil || !strings.Contains(err.Error(), "/image/tag'") {
					t.Errorf("%s: tag %s: %v", chart, tag, err)
				}
				continue
			}
			objects := manifestsOf(t, chart, v)
			for _, w := range wrongNames(objects) {
				t.Errorf("%s: tag %s: %s", chart, tag, w)
			}
		}
	}
}
