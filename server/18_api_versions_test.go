package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// a version above the range is answered in the form of version 0, and the
// connection goes on.
func TestApiVersionsTooNew(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, version := range []byte{6, 99} {
		c.corr++
		raw := []byte{0, 0, 0, 15, 0, 18, 0, version, 0, 0, 0, byte(c.corr), 0, 1, 'x', 0, 0xff, 0xff, 0xff}
		if _, err := c.nc.Write(raw); err != nil {
			t.Fatal(err)
		}
		corr, b := c.receive()
		resp := kmsg.NewPtrApiVersionsResponse()
		c.decode(resp, b) // version 0
		if corr != c.corr || resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 {
			t.Fatalf("version %d: %+v", version, resp)
		}
		if k := resp.ApiKeys[0]; k.ApiKey != 18 || k.MinVersion != 0 || k.MaxVersion != 5 {
			t.Errorf("version %d: range %+v", version, k)
		}
	}
	c.ask(apiVersionsReq(3, "franz-go", "1.0"))
}

func apiVersionsReq(version int16, name, software string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, software
	return req
}

func TestApiVersionsErrors(t *testing.T) {
	n := startNode(t, t.TempDir(), "node.id=3", "cluster.id=mine")
	c := dial(t, n.Addr())
	for _, tc := range []struct {
		version        int16
		name, software string
		cluster        string
		node           int32
		want           int16
	}{
		{3, "a", "1", "", -1, 0},
		{3, "apache-kafka-java", "4.4.0-rc.1", "", -1, 0},
		{3, "", "1", "", -1, 42},
		{3, "a", "", "", -1, 42},
		{4, "-a", "1", "", -1, 42},
		{4, "a.", "1", "", -1, 42},
		{5, "a b", "1", "", -1, 42},
		{5, "a", "1\n", "", -1, 42},
		{5, "a", "1", "mine", 3, 0},
		{5, "a", "1", "mine", 4, 129},
		{5, "a", "1", "other", 3, 129},
		{5, "a", "1", "mine", -1, 42},
		{5, "a", "1", "", 3, 42},
	} {
		req := apiVersionsReq(tc.version, tc.name, tc.software)
		req.NodeID = tc.node
		if tc.cluster != "" {
			req.ClusterID = &tc.cluster
		}
		resp := c.ask(req).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != tc.want || (len(resp.ApiKeys) > 0) != (tc.want == 0) {
			t.Errorf("%+v: error %d, %d keys", tc, resp.ErrorCode, len(resp.ApiKeys))
		}
		checkFeatures(t, tc.version, resp)
		if (resp.FinalizedFeaturesEpoch >= 0) != (tc.want == 0) && tc.version >= 3 {
			t.Errorf("%+v: features epoch %d", tc, resp.FinalizedFeaturesEpoch)
		}
	}
}

// checkFeatures looks for the features, finalized at one level each. Java refuses a
// supported feature whose lowest level is 0 below version 4.
func checkFeatures(t *testing.T, version int16, resp *kmsg.ApiVersionsResponse) {
	t.Helper()
	wantSupported := []string{"group.version 0-1", "metadata.version 7-33", "transaction.version 0-2"}
	wantFinalized := []string{"group.version 1-1", "metadata.version 33-33", "transaction.version 2-2"}
	var supported, finalized []string
	for _, f := range resp.SupportedFeatures {
		supported = append(supported, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersion, f.MaxVersion))
	}
	for _, f := range resp.FinalizedFeatures {
		finalized = append(finalized, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersionLevel, f.MaxVersionLevel))
	}
	switch {
	case version < 3 || resp.ErrorCode != 0:
		wantSupported, wantFinalized = nil, nil
	case version == 3:
		wantSupported = []string{"metadata.version 7-33"}
	}
	if !slices.Equal(finalized, wantFinalized) || !slices.Equal(supported, wantSupported) {
		t.Errorf("version %d, error %d: supported %v, finalized %v", version, resp.ErrorCode, supported, finalized)
	}
}

func TestProduceIsListedFromZero(t *testing.T) {
	if produceAPI.min != 0 || produceAPI.works != 3 {
		t.Errorf("listed from %d, works from %d", produceAPI.min, produceAPI.works)
	}
}

// Of what a client calls itself no more is kept than is shown.
func TestApiVersionsLongName(t *testing.T) {
	n := startNode(t, t.TempDir())
	long, most := strings.Repeat("x", 1<<20), strings.Repeat("y", longestSoftware)
	for _, tc := range []struct {
		name, version string
		want          int16
	}{{long, "1", 42}, {"a", long, 42}, {"a", most + "y", 42}, {most, most, 0}} {
		c := dial(t, n.Addr())
		if got := c.ask(apiVersionsReq(3, tc.name, tc.version)).(*kmsg.ApiVersionsResponse).ErrorCode; got != tc.want {
			t.Errorf("%d and %d bytes: error %d, want %d", len(tc.name), len(tc.version), got, tc.want)
		}
	}
}
