package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestConfigsAreShownParsed(t *testing.T) {
	for _, c := range []struct {
		kind       kmsg.ConfigType
		typed, see string
	}{
		{kmsg.ConfigTypeList, " compact , delete", "compact,delete"},
		{kmsg.ConfigTypeList, "", ""},
		{kmsg.ConfigTypeLong, "+1048577", "1048577"},
		{kmsg.ConfigTypeInt, "007", "7"},
		{kmsg.ConfigTypeInt, "-1", "-1"},
		{kmsg.ConfigTypeBoolean, "TRUE", "true"},
		{kmsg.ConfigTypeString, "LZ4", "LZ4"},
		{kmsg.ConfigTypeDouble, "0.5", "0.5"},
	} {
		if see := parsedConfig(c.kind, c.typed); see != c.see {
			t.Errorf("%v %q is shown as %q, want %q", c.kind, c.typed, see, c.see)
		}
	}
}
