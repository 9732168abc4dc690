package server

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillAdmin fills the requests that change topics and configurations; nil if it does
// not know them.
func (s *sweepTopics) fillAdmin(req kmsg.Request, fresh []string, c *client) func(kmsg.Response) error {
	each := func(codes ...int16) error {
		if len(codes) != 3 || slices.Max(codes) != 0 {
			return fmt.Errorf("errors %v, want three zeros", codes)
		}
		return nil
	}
	value := "1048576"
	switch r := req.(type) {
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		for _, name := range append(fresh, fresh[0]+"c") {
			r.Upsertions = append(r.Upsertions, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: 1, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)})
		}
		return func(resp kmsg.Response) error {
			var codes []int16
			for _, u := range resp.(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
				codes = append(codes, u.ErrorCode)
			}
			return each(codes...)
		}
	case *kmsg.DescribeUserSCRAMCredentialsRequest:
		for _, name := range append(s.names, fresh[0]) { // none of whom there is
			r.Users = append(r.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
		}
		return func(resp kmsg.Response) error {
			us := resp.(*kmsg.DescribeUserSCRAMCredentialsResponse).Results
			if len(us) != 3 {
				return fmt.Errorf("%d users", len(us))
			}
			return codeIs(us[0].ErrorCode, 91)
		}
	case *kmsg.CreatePartitionsRequest:
		r.TimeoutMillis = 20_000
		for i, name := range append(fresh, fresh[0]+"c") {
			c.create(name, 2)
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, 5
			for range 3 * i {
				rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{0}})
			}
			if i == 2 {
				rt.Assignment = rt.Assignment[:3]
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			var codes []int16
			for _, rt := range resp.(*kmsg.CreatePartitionsResponse).Topics {
				codes = append(codes, rt.ErrorCode)
			}
			return each(codes...)
		}
	case *kmsg.AlterConfigsRequest:
		for _, name := range append([]string{""}, s.names...) {
			rr := kmsg.NewAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, name
			if name == "" {
				rr.ResourceType = kmsg.ConfigResourceTypeBroker
			} else {
				for _, key := range []string{"segment.bytes", "max.message.bytes", "retention.bytes"} {
					rr.Configs = append(rr.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: key, Value: &value})
				}
			}
			r.Resources = append(r.Resources, rr)
		}
		return func(resp kmsg.Response) error {
			var codes []int16
			for _, rr := range resp.(*kmsg.AlterConfigsResponse).Resources {
				codes = append(codes, rr.ErrorCode)
			}
			return each(codes...)
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, name := range append([]string{"0"}, s.names...) {
			rr := kmsg.NewIncrementalAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, name
			keys := []string{"segment.bytes", "max.message.bytes", "retention.bytes"}
			if name == "0" {
				rr.ResourceType = kmsg.ConfigResourceTypeBroker
				keys = []string{"log.segment.bytes", "message.max.bytes", "log.retention.bytes"}
			}
			for i, key := range keys {
				rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				rc.Name, rc.Value = key, &value
				if i == 2 {
					rc.Op, rc.Value = kmsg.IncrementalAlterConfigOpDelete, nil
				}
				rr.Configs = append(rr.Configs, rc)
			}
			r.Resources = append(r.Resources, rr)
		}
		return func(resp kmsg.Response) error {
			var codes []int16
			for _, rr := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
				codes = append(codes, rr.ErrorCode)
			}
			return each(codes...)
		}
	case *kmsg.ListConfigResourcesRequest:
		r.ResourceTypes = []int8{2, 4}
		return func(resp kmsg.Response) error {
			rs := resp.(*kmsg.ListConfigResourcesResponse)
			if n := len(rs.ConfigResources); rs.ErrorCode != 0 || r.Version == 0 && n != 0 || r.Version > 0 && n < 3 {
				return fmt.Errorf("%+v", rs)
			}
			return nil
		}
	}
	return s.fillCluster(req)
}
