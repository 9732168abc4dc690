package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

func TestJudge(t *testing.T) {
	of := func(err error) error { return &kafka.Error{Doing: "try", Err: err} }
	for _, tc := range []struct {
		err    error
		reason string
		final  bool
	}{
		{no(ReasonNameTaken, "x"), ReasonNameTaken, true},
		{of(kerr.InvalidConfig), ReasonConfigRefused, true},
		{of(kerr.InvalidTopicException), ReasonRefused, true},
		{of(kerr.PolicyViolation), ReasonRefused, true},
		{of(kerr.TopicAuthorizationFailed), ReasonUnauthorized, false},
		{of(kerr.ClusterAuthorizationFailed), ReasonUnauthorized, false},
		{of(kerr.SaslAuthenticationFailed), ReasonNotLetIn, false},
		{of(kerr.SecurityDisabled), ReasonNoAuthorizer, true},
		{of(kerr.NotController), ReasonBusy, false},
		{of(kerr.TopicAlreadyExists), ReasonBusy, false},
		{of(kerr.ThrottlingQuotaExceeded), ReasonBusy, false},
		{of(context.DeadlineExceeded), ReasonUnreachable, false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", nil), ReasonKubernetesRefused, false},
		{fmt.Errorf("the deletion waits: %w", of(kerr.InvalidConfig)), ReasonConfigRefused, true},
		{first([]error{of(kerr.NotController), no(ReasonPartitionDecrease, "x")}), ReasonBusy, false},
	} {
		if reason, final := judge(tc.err); reason != tc.reason || final != tc.final {
			t.Errorf("%v: %s, %v", tc.err, reason, final)
		}
	}
	both := first([]error{errors.New("one"), errors.New("other")}).Error()
	if !strings.Contains(both, "one") || !strings.Contains(both, "other") {
		t.Error(both)
	}
}

func TestCut(t *testing.T) {
	for most := range 8 {
		if got := cut("äöü€", most); len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%d: %q", most, got)
		}
	}
	if cut("abc", 3) != "abc" {
		t.Error("too much is cut")
	}
}
