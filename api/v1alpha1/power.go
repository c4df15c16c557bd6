package v1alpha1

// A PowerRequest is what somebody asked for of a running instance, as it stands
// in AnnotationPowerRequest. The latest one counts.
//
// +kubebuilder:object:generate=false
type PowerRequest struct {
	// ID is another one for each request.
	ID string `json:"id"`
	// Action is what is asked for.
	Action PowerAction `json:"action"`
}

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
