package server

// UpdateFeatures, key 57, versions 0 to 2 (KIP-584, KIP-778).
//
// The levels of features are this build's: to be set to what it is is all that a feature
// can be asked for. Anything else is INVALID_UPDATE_VERSION, for the whole request. Up to
// version 1 each feature is answered when all is well, with no error's name.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var updateFeaturesAPI = api{key: kmsg.UpdateFeatures, min: 0, max: 2, access: onCluster(acl.Alter), start: (*Server).updateFeatures}

func (s *Server) updateFeatures(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.UpdateFeaturesRequest)
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	if r.refused != nil {
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.UpdateFeatures, r.refused), message(r.refused)
		return now(resp)
	}
	none := "NONE"
	for _, u := range req.FeatureUpdates {
		if err := checkFeature(req.Version, u); err != nil {
			resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.UpdateFeatures, err), message(err)
			resp.Results = nil
			break
		}
		if req.Version < 2 {
			o := kmsg.NewUpdateFeaturesResponseResult()
			o.Feature, o.ErrorMessage = u.Feature, &none
			resp.Results = append(resp.Results, o)
		}
	}
	return now(resp)
}

// The ways in which a feature may be set: up, down, and down at a loss.
const upgrade, unsafeDowngrade = 1, 3

func checkFeature(version int16, u kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	f := featureNamed(u.Feature)
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %.200s cannot be set to %d: %s", kerr.InvalidUpdateVersion, u.Feature, u.MaxVersionLevel, fmt.Sprintf(format, a...))
	}
	switch {
	case f == nil:
		return bad("there is no such feature")
	case u.MaxVersionLevel < f.low || u.MaxVersionLevel > f.high:
		return bad("its levels are %d to %d", f.low, f.high)
	case version >= 1 && (u.UpgradeType < upgrade || u.UpgradeType > unsafeDowngrade):
		return bad("upgrade type %d is unknown", u.UpgradeType)
	case u.MaxVersionLevel != f.level:
		return bad("this build has it at %d", f.level)
	}
	return nil
}
