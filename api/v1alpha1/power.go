package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A PowerRequest is what somebody asked for of a running instance, as it stands
// in AnnotationPowerRequest. The latest one counts.
//
// +kubebuilder:object:generate=false
type PowerRequest struct {
	// ID is another one for each request.
	ID string `json:"id"`
	// Action is what is asked for.
	Action PowerAction `json:"action"`
	// At is when it was asked for; a request without it has no age. One that is
	// older than PowerRequestAge is not done any more.
	At *metav1.Time `json:"at,omitempty"`
}

// PowerRequestAge is how long a request waits for an agent that is away.
const PowerRequestAge = 5 * time.Minute

// A PowerAction is something that is done to a running guest, which stays the
// same instance.
type PowerAction string

// Actions that can be asked for.
const (
	// PowerReset resets the guest as its reset button would: whatever it does, at once.
	PowerReset PowerAction = "reset"
	// PowerSoftReboot asks the guest to reboot, by its agent or by ACPI.
	PowerSoftReboot PowerAction = "softreboot"
)
