package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KafkaUser is a user of the cluster that the operator is for.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ku,categories=kaas
// +kubebuilder:printcolumn:name="Principal",type=string,JSONPath=`.status.principal`
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.spec.authentication.type`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secret.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="(has(self.spec.userName) ? self.spec.userName : self.metadata.name) == (has(oldSelf.spec.userName) ? oldSelf.spec.userName : oldSelf.metadata.name)",message="spec.userName cannot change: another name is another user"
type KafkaUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   KafkaUserSpec   `json:"spec"`
	Status KafkaUserStatus `json:"status,omitempty"`
}

// KafkaUserSpec is what the user is to be.
type KafkaUserSpec struct {
	// UserName is the user's name in Kafka, where that is not the resource's. It cannot change.
	// Of a certificate it is what ssl.principal.mapping.rules make of the subject.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self != '*'",message="that is everybody"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('User:')",message="the name alone, without User:"
	UserName string `json:"userName,omitempty"`

	Authentication Authentication `json:"authentication"`

	// Adopt takes over a user that is there already: its password is replaced, and its other ACLs
	// and quotas are taken away, and passwords for SCRAM-SHA-256. Without it such a user is left as it is.
	//
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// ACLs are all that the user has; others' for the same principal are taken away.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	ACLs []ACL `json:"acls,omitempty"`

	// Quotas are all that the user has by its name alone.
	//
	// +optional
	Quotas *Quotas `json:"quotas,omitempty"`
}

// Authentication is how the user shows who it is.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'scram-sha-512' || !(has(self.passwordFrom) || has(self.secretName) || has(self.iterations))",message="passwordFrom, secretName and iterations are for scram-sha-512"
// +kubebuilder:validation:XValidation:rule="!(has(self.passwordFrom) && has(self.secretName))",message="the password is either taken from passwordFrom or generated into secretName"
type Authentication struct {
	Type AuthenticationType `json:"type"`

	// PasswordFrom says where the password is. Without it one is generated.
	//
	// +optional
	PasswordFrom *SecretKey `json:"passwordFrom,omitempty"`

	// SecretName is the Secret for the generated password, where its name is not to be that of
	// the resource.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName,omitempty"`

	// Iterations of the hash; 4096 if not given.
	//
	// +optional
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=16384
	Iterations *int32 `json:"iterations,omitempty"`
}

// AuthenticationType is a way to show who one is. tls-external stands for whatever is not the
// operator's affair: certificates, tokens, passwords in brokers' settings. A password for SCRAM is
// taken away.
//
// +kubebuilder:validation:Enum=scram-sha-512;tls-external
type AuthenticationType string

// The ways.
const (
	ScramSHA512 AuthenticationType = "scram-sha-512"
	TLSExternal AuthenticationType = "tls-external"
)

// SecretKey is a value of a Secret in the resource's namespace.
type SecretKey struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="self != '.' && !self.startsWith('..')",message="no key of a Secret is called so"
	Key string `json:"key,omitempty"`
}

// ACL allows or denies operations on resources of a kind.
type ACL struct {
	// +optional
	// +kubebuilder:default=Allow
	Permission Permission `json:"permission,omitempty"`

	Resource ACLResource `json:"resource"`

	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=set
	Operations []Operation `json:"operations"`

	// Host is the address, or a range such as 10.0.0.0/8, that it holds for; * is anywhere.
	//
	// +optional
	// +kubebuilder:default="*"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Host string `json:"host,omitempty"`
}

// ACLResource is what an ACL is for.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Cluster' ? !has(self.name) : has(self.name)",message="all but Cluster have a name"
// +kubebuilder:validation:XValidation:rule="self.type != 'Cluster' || !has(self.patternType) || self.patternType == 'Literal'",message="Cluster is literal"
type ACLResource struct {
	Type ResourceType `json:"type"`

	// Name of the resource; * is all of them.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	Name string `json:"name,omitempty"`

	// +optional
	// +kubebuilder:default=Literal
	PatternType PatternType `json:"patternType,omitempty"`
}

// Permission is what an ACL does.
//
// +kubebuilder:validation:Enum=Allow;Deny
type Permission string

// The permissions.
const (
	Allow Permission = "Allow"
	Deny  Permission = "Deny"
)

// ResourceType is a kind of what ACLs are for.
//
// +kubebuilder:validation:Enum=Topic;Group;Cluster;TransactionalId
type ResourceType string

// The kinds.
const (
	Topic           ResourceType = "Topic"
	Group           ResourceType = "Group"
	Cluster         ResourceType = "Cluster"
	TransactionalID ResourceType = "TransactionalId"
)

// PatternType is whether a name is the whole name.
//
// +kubebuilder:validation:Enum=Literal;Prefixed
type PatternType string

// The pattern types.
const (
	Literal  PatternType = "Literal"
	Prefixed PatternType = "Prefixed"
)

// Operation is what may be done, or not.
//
// +kubebuilder:validation:Enum=All;Read;Write;Create;Delete;Alter;Describe;ClusterAction;DescribeConfigs;AlterConfigs;IdempotentWrite
type Operation string

// Quotas bound what the user uses of each broker.
type Quotas struct {
	// ProducerByteRate is in bytes a second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProducerByteRate *int64 `json:"producerByteRate,omitempty"`

	// ConsumerByteRate is in bytes a second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ConsumerByteRate *int64 `json:"consumerByteRate,omitempty"`

	// RequestPercentage is in hundredths of one thread.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	RequestPercentage *int32 `json:"requestPercentage,omitempty"`

	// ControllerMutationRate is in partitions made or deleted a second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ControllerMutationRate *int32 `json:"controllerMutationRate,omitempty"`
}

// KafkaUserStatus is what the user was when it was last looked at. Nothing of a password is
// in it.
type KafkaUserStatus struct {
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

	// Principal is who the user is in ACLs.
	//
	// +optional
	Principal string `json:"principal,omitempty"`

	// Secret is where the password is that the user has got.
	//
	// +optional
	Secret *UserSecret `json:"secret,omitempty"`
}

// UserSecret is a Secret, and as of when its password was set.
type UserSecret struct {
	Name string `json:"name"`

	// ResourceVersion is the Secret's when its password was set; empty before.
	//
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// SetAt is when.
	//
	// +optional
	SetAt *metav1.Time `json:"setAt,omitempty"`
}

// KafkaUserList is several of them.
//
// +kubebuilder:object:root=true
type KafkaUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KafkaUser `json:"items"`
}

// KafkaName is the user's name in Kafka.
func (u *KafkaUser) KafkaName() string {
	if u.Spec.UserName != "" {
		return u.Spec.UserName
	}
	return u.Name
}

// Principal is who the user is in ACLs.
func (u *KafkaUser) Principal() string { return "User:" + u.KafkaName() }

// SecretName is the Secret with the password, or nothing.
func (u *KafkaUser) SecretName() string {
	a := &u.Spec.Authentication
	switch {
	case a.Type != ScramSHA512:
		return ""
	case a.PasswordFrom != nil:
		return a.PasswordFrom.Name
	case a.SecretName != "":
		return a.SecretName
	}
	return u.Name
}

// Conditions is the list with the one of type Ready.
func (u *KafkaUser) Conditions() *[]metav1.Condition { return &u.Status.Conditions }

// Observe notes the generation that the status is about.
func (u *KafkaUser) Observe() { u.Status.ObservedGeneration = u.Generation }

// Held is whether the resource was the one for its user when it was last looked at.
func (u *KafkaUser) Held() bool { return u.Status.Principal != "" }

// Hold notes that it is.
func (u *KafkaUser) Hold() { u.Status.Principal = u.Principal() }

// Kind is what the resource is.
func (u *KafkaUser) Kind() string { return "KafkaUser" }

// CopyTo copies the resource into another one.
func (u *KafkaUser) CopyTo(other any) { u.DeepCopyInto(other.(*KafkaUser)) }
