package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KafkaTopic is a topic of the cluster that the operator is for.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=kt,categories=kaas
// +kubebuilder:printcolumn:name="Topic",type=string,JSONPath=`.status.topicName`
// +kubebuilder:printcolumn:name="Partitions",type=integer,JSONPath=`.status.partitions`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.topicName) || size(self.metadata.name) <= 249",message="a topic's name has at most 249 characters: give spec.topicName"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.topicName) ? self.spec.topicName : self.metadata.name) == (has(oldSelf.spec.topicName) ? oldSelf.spec.topicName : oldSelf.metadata.name)",message="spec.topicName cannot change: another name is another topic"
type KafkaTopic struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	Spec   KafkaTopicSpec   `json:"spec"`
	Status KafkaTopicStatus `json:"status,omitempty"`
}

// KafkaTopicSpec is what the topic is to be.
type KafkaTopicSpec struct {
	// TopicName is the topic's name in Kafka, where that is not the resource's. It cannot change.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9._-]+$`
	// +kubebuilder:validation:XValidation:rule="self != '.' && self != '..'",message="no topic may have this name"
	TopicName string `json:"topicName,omitempty"`

	// Partitions is how many the topic has. It can grow. Without it the topic is made with the
	// brokers' num.partitions, and any number is right.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Partitions *int32 `json:"partitions,omitempty"`

	// Configs are settings of the topic by Kafka's names, such as retention.ms. Values are text:
	// quote numbers.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Configs map[string]string `json:"configs,omitempty"`

	// OtherConfigs is what becomes of settings of the topic that are not in configs. Reset takes
	// them away, Keep leaves them to whoever set them.
	//
	// +optional
	// +kubebuilder:default=Reset
	OtherConfigs OtherConfigs `json:"otherConfigs,omitempty"`

	// DeletionPolicy is what becomes of the topic, and its records, when the resource is deleted.
	//
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// OtherConfigs is what becomes of settings that a resource does not list.
//
// +kubebuilder:validation:Enum=Reset;Keep
type OtherConfigs string

// The ways with other settings.
const (
	ResetOthers OtherConfigs = "Reset"
	KeepOthers  OtherConfigs = "Keep"
)

// DeletionPolicy is what becomes of a topic whose resource is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// The policies.
const (
	DeleteTopic DeletionPolicy = "Delete"
	RetainTopic DeletionPolicy = "Retain"
)

// KafkaTopicStatus is what the topic was when it was last looked at.
type KafkaTopicStatus struct {
	// ObservedGeneration is the generation of the resource that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions have one of type Ready.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// TopicName is the topic's name in Kafka.
	//
	// +optional
	TopicName string `json:"topicName,omitempty"`

	// TopicID is the topic's ID, as Kafka's tools write it. Another one under the same name is
	// another topic, without the records of the first.
	//
	// +optional
	TopicID string `json:"topicID,omitempty"`

	// Partitions is how many there are.
	//
	// +optional
	Partitions int32 `json:"partitions,omitempty"`

	// ManagedConfigs are the names of settings that the operator has set, and takes away when
	// they are listed no more.
	//
	// +optional
	// +listType=set
	ManagedConfigs []string `json:"managedConfigs,omitempty"`
}

// KafkaTopicList is several of them.
//
// +kubebuilder:object:root=true
type KafkaTopicList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KafkaTopic `json:"items"`
}

// KafkaName is the topic's name in Kafka.
func (t *KafkaTopic) KafkaName() string {
	if t.Spec.TopicName != "" {
		return t.Spec.TopicName
	}
	return t.Name
}

// Conditions is the list with the one of type Ready.
func (t *KafkaTopic) Conditions() *[]metav1.Condition { return &t.Status.Conditions }

// Observe notes the generation that the status is about.
func (t *KafkaTopic) Observe() { t.Status.ObservedGeneration = t.Generation }

// Held is whether the resource was the one for its topic when it was last looked at.
func (t *KafkaTopic) Held() bool { return t.Status.TopicName != "" }

// Hold notes that it is.
func (t *KafkaTopic) Hold() { t.Status.TopicName = t.KafkaName() }

// Kind is what the resource is.
func (t *KafkaTopic) Kind() string { return "KafkaTopic" }

// CopyTo copies the resource into another one.
func (t *KafkaTopic) CopyTo(other any) { t.DeepCopyInto(other.(*KafkaTopic)) }
