package server

// ApiVersions, key 18, versions 0 to 5.
//
// Tells what apis serves on the listener. A version above 5 gets a version 0 body with
// UNSUPPORTED_VERSION and the range of key 18, from which clients retry; see
// apiVersionsTooNew. From version 3 a client names its software, in 300 bytes at most, and from version 5
// the cluster and node it means to talk to (KIP-1242): a mismatch is answered 129.
// The features are in features.go. Below version 4 clients take a lowest level of 0 for an
// error, so that features which have one are not told as supported.

import (
	"context"
	"fmt"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var apiVersionsAPI = api{key: kmsg.ApiVersions, min: 0, max: 5, access: open("how to talk to a broker is known before who asks"), start: (*Server).apiVersions}

const rebootstrapRequired = 129

// longestSoftware bounds what a connection keeps of its client's name, and of its version.
const longestSoftware = 300

// softwareName is what Kafka allows as a client software name or version (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (s *Server) apiVersions(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ApiVersionsRequest)
	resp := kmsg.NewPtrApiVersionsResponse()
	if a := r.conn.auth; a != nil && a.stage == stageTokens {
		resp.ErrorCode = s.failure(kmsg.ApiVersions, kerr.IllegalSaslState)
		return a.fail(resp, fmt.Errorf("%w: ApiVersions within an exchange", kerr.IllegalSaslState))
	}
	resp.ErrorCode = s.checkAPIVersions(req)
	if resp.ErrorCode != 0 {
		s.metrics.failed(kmsg.ApiVersions, resp.ErrorCode)
		return now(resp)
	}
	resp.FinalizedFeaturesEpoch = featuresEpoch // clients ignore features at -1; it must never go back
	if req.Version >= 3 {
		r.conn.software = req.ClientSoftwareName + " " + req.ClientSoftwareVersion
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(apis))
	for i := range apis {
		if r.conn.sees(&apis[i]) {
			resp.ApiKeys = append(resp.ApiKeys, apiRange(apis[i]))
		}
	}
	tellFeatures(resp, req.Version)
	if a := r.conn.auth; a != nil && a.stage == stageFirst {
		a.stage = stageHandshake
	}
	return now(resp)
}

func tellFeatures(resp *kmsg.ApiVersionsResponse, version int16) {
	for _, f := range features {
		if version >= 4 || f.low > 0 {
			o := kmsg.NewApiVersionsResponseSupportedFeature()
			o.Name, o.MinVersion, o.MaxVersion = f.name, f.low, f.high
			resp.SupportedFeatures = append(resp.SupportedFeatures, o)
		}
		o := kmsg.NewApiVersionsResponseFinalizedFeature()
		o.Name, o.MinVersionLevel, o.MaxVersionLevel = f.name, f.level, f.level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, o)
	}
}

// isSoftware reports whether a client may call its software, or the version of it, so.
func isSoftware(s string) bool { return len(s) <= longestSoftware && softwareName.MatchString(s) }

func (s *Server) checkAPIVersions(req *kmsg.ApiVersionsRequest) int16 {
	if req.Version >= 3 && !(isSoftware(req.ClientSoftwareName) && isSoftware(req.ClientSoftwareVersion)) {
		return kerr.InvalidRequest.Code
	}
	if req.Version < 5 || req.ClusterID == nil && req.NodeID == -1 {
		return 0
	}
	if req.ClusterID == nil || req.NodeID == -1 {
		return kerr.InvalidRequest.Code
	}
	if *req.ClusterID != s.clusterID || req.NodeID != s.cfg.NodeID {
		return rebootstrapRequired
	}
	return 0
}

func apiRange(a api) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = int16(a.key), a.min, a.max
	return k
}

// apiVersionsTooNew answers a version that is not known, in a form that any client reads.
func apiVersionsTooNew() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{apiRange(apiVersionsAPI)}
	return resp
}
