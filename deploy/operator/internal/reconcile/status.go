package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// ConditionReady says whether the cluster is as the resource says.
const ConditionReady = "Ready"

// Why a resource is ready, or not.
const (
	ReasonInSync            = "InSync"
	ReasonUnreachable       = "ClusterUnreachable"
	ReasonBusy              = "ClusterBusy"
	ReasonUnauthorized      = "NotAuthorized"
	ReasonNotLetIn          = "NotAuthenticated"
	ReasonNoAuthorizer      = "NoAuthorizer"
	ReasonRefused           = "Refused"
	ReasonConfigRefused     = "ConfigRefused"
	ReasonNameTaken         = "NameTaken"
	ReasonPartitionDecrease = "PartitionDecreaseRefused"
	ReasonSecretMissing     = "SecretMissing"
	ReasonSecretInvalid     = "SecretInvalid"
	ReasonSecretOfAnother   = "SecretOfAnother"
	ReasonOperatorsOwn      = "OperatorsOwnUser"
	ReasonReserved          = "ReservedUser"
	ReasonUserExists        = "UserExists"
	ReasonKubernetesRefused = "KubernetesRefused"
)

const (
	mostEventNote = 1000 // bytes; an event takes 1024
	mostMessage   = 4096
)

// Whether what keeps a resource from being ready stays until something changes.
const verdictFinal, comesAgain = true, false

// verdict is why a resource is not ready, where that is no error of the cluster's. What is
// final stays so until something changes.
type verdict struct {
	reason, message string
	final           bool
}

func (v *verdict) Error() string { return v.message }

// no is a verdict that stays until something changes.
func no(reason, format string, a ...any) error {
	return &verdict{reason, fmt.Sprintf(format, a...), verdictFinal}
}

// judge says why err keeps a resource from being ready, and whether trying again soon may help.
func judge(err error) (reason string, final bool) {
	var v *verdict
	var k *kafka.Error
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &v):
		return v.reason, v.final
	case errors.As(err, &status) && !errors.As(err, &k):
		return ReasonKubernetesRefused, comesAgain
	case errors.Is(err, kerr.InvalidConfig):
		return ReasonConfigRefused, verdictFinal
	}
	switch kafka.KindOf(err) {
	case kafka.Busy:
		return ReasonBusy, comesAgain
	case kafka.Unauthorized:
		return ReasonUnauthorized, comesAgain
	case kafka.NotLetIn:
		return ReasonNotLetIn, comesAgain
	case kafka.NoAuthorizer:
		return ReasonNoAuthorizer, verdictFinal
	case kafka.Refused:
		return ReasonRefused, verdictFinal
	}
	return ReasonUnreachable, comesAgain
}

// finish writes what has become of a look at a resource, and says when to look again.
func (b *Base) finish(ctx context.Context, obj, old resource, err error) (reconcile.Result, error) {
	if conflicts(err) {
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	}
	final := false
	if err == nil {
		b.setReady(obj, metav1.ConditionTrue, ReasonInSync, "")
	} else {
		var reason string
		reason, final = judge(err)
		b.setReady(obj, metav1.ConditionFalse, reason, err.Error())
	}
	if werr := b.writeStatus(ctx, obj, old); werr != nil {
		if conflicts(werr) {
			return reconcile.Result{RequeueAfter: afterConflict}, nil
		}
		return reconcile.Result{}, errors.Join(err, werr)
	}
	if err == nil || final {
		return b.again(), nil
	}
	return reconcile.Result{}, err
}

// conflicts is whether the resource is not any more what was looked at.
func conflicts(err error) bool { return apierrors.IsConflict(err) }

// setReady sets the condition, and tells of it where the reason is news.
func (b *Base) setReady(obj resource, status metav1.ConditionStatus, reason, message string) {
	obj.Observe()
	before := meta.FindStatusCondition(*obj.Conditions(), ConditionReady)
	news := before == nil || before.Reason != reason
	meta.SetStatusCondition(obj.Conditions(), metav1.Condition{
		Type: ConditionReady, Status: status, Reason: reason, Message: cut(message, mostMessage), ObservedGeneration: obj.GetGeneration(),
	})
	if news && status != metav1.ConditionTrue {
		b.warn(obj, reason, "%s", message)
	}
}

// writeStatus writes the status if it is another one than old's, which it becomes.
func (b *Base) writeStatus(ctx context.Context, obj, old resource) error {
	if equality.Semantic.DeepEqual(obj, old) {
		return nil
	}
	if err := b.Client.Status().Patch(ctx, obj, against(old)); err != nil {
		return client.IgnoreNotFound(err)
	}
	obj.CopyTo(old)
	return nil
}

// tell records an event, and logs it.
func (b *Base) tell(obj resource, reason, format string, a ...any) {
	note := fmt.Sprintf(format, a...)
	b.Log.Info(note, "kind", obj.Kind(), "namespace", obj.GetNamespace(), "name", obj.GetName(), "reason", reason)
	b.Events.Eventf(obj, nil, corev1.EventTypeNormal, reason, "Reconcile", "%s", cut(note, mostEventNote))
	changes.WithLabelValues(obj.Kind(), reason).Inc()
}

// warn is tell for what is wrong.
func (b *Base) warn(obj resource, reason, format string, a ...any) {
	note := fmt.Sprintf(format, a...)
	b.Log.Warn(note, "kind", obj.Kind(), "namespace", obj.GetNamespace(), "name", obj.GetName(), "reason", reason)
	b.Events.Eventf(obj, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", cut(note, mostEventNote))
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 { // not within a character
		most--
	}
	return s[:most]
}
