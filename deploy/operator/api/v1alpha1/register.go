package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is what the resources belong to.
var GroupVersion = schema.GroupVersion{Group: "kaas.dev", Version: "v1alpha1"}

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &KafkaTopic{}, &KafkaTopicList{}, &KafkaUser{}, &KafkaUserList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
