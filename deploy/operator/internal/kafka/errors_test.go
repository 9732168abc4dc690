package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// What resources tell has the name of a broker's error once, and its own words where there are any.
func TestErrorSaysItOnce(t *testing.T) {
	for _, tc := range []struct {
		err     error
		message string
		want    string
	}{
		{kerr.SecurityDisabled, "", "list: SECURITY_DISABLED: Security features are disabled."},
		{kerr.SecurityDisabled, "No authorizer.", "list: SECURITY_DISABLED: No authorizer."},
		{kerr.SecurityDisabled, kerr.SecurityDisabled.Error(), "list: SECURITY_DISABLED: Security features are disabled."},
		{errors.New("gone"), "", "list: gone"},
	} {
		if got := failed(tc.err, tc.message, "list").Error(); got != tc.want {
			t.Errorf("%v with %q: %q, want %q", tc.err, tc.message, got, tc.want)
		}
	}
}
