package subresources

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// reasonNotImplemented is the reason of answers with code 501.
const reasonNotImplemented metav1.StatusReason = "NotImplemented"

// unserved are KubeVirt's calls that this API does not serve, as RESOURCE or RESOURCE/SUBRESOURCE:
// what is missing, and what to do instead. A subresource of two parts, such as vnc/screenshot, is
// authorized and listed under the first.
var unserved = map[string]string{
	"virtualmachineinstances/addvolume":           "a running VMI takes no more volumes: add the volume to the VM, and restart it",
	"virtualmachineinstances/backup":              "there are no backups of running VMIs: stop the VM, and copy or snapshot its volumes",
	"virtualmachineinstances/console":             "there is no serial console: connect to the guest by its network, for example with ssh",
	"virtualmachineinstances/evacuate":            "there is no live migration, so there is no evacuation to cancel",
	"virtualmachineinstances/filesystemlist":      "the guest agent is not queried: ask the guest itself, for example with ssh",
	"virtualmachineinstances/freeze":              "file systems of guests are not frozen: stop the VM before you copy or snapshot its volumes",
	"virtualmachineinstances/guestosinfo":         "the guest agent is not queried: ask the guest itself, for example with ssh",
	"virtualmachineinstances/objectgraph":         "there is no graph of objects: read volumes, networks and accessCredentials of the VMI's spec",
	"virtualmachineinstances/pause":               "VMIs are not paused: stop the VM, and start it when you need it again",
	"virtualmachineinstances/portforward":         "ports are not forwarded: connect to the guest by its network",
	"virtualmachineinstances/redefine-checkpoint": "there are no backups of running VMIs: stop the VM, and copy or snapshot its volumes",
	"virtualmachineinstances/removevolume":        "volumes are not removed from a running VMI: remove the volume from the VM, and restart it",
	"virtualmachineinstances/sev":                 "launches of SEV guests are not attested: verify the launch in the guest",
	"virtualmachineinstances/unfreeze":            "file systems of guests are not frozen, so there is nothing to unfreeze",
	"virtualmachineinstances/unpause":             "VMIs are not unpaused: restart the VM",
	"virtualmachineinstances/usbredir":            "USB devices of clients are not redirected: copy files by the guest's network",
	"virtualmachineinstances/userlist":            "the guest agent is not queried: ask the guest itself, for example with ssh",
	"virtualmachineinstances/vnc":                 "there is no VNC: connect to the guest by its network, for example with ssh or RDP",
	"virtualmachineinstances/vsock":               "VSOCK is not forwarded: connect to the guest by its network",
	"virtualmachines/addvolume":                   "a running VM takes no more volumes: add the volume to spec.template, and restart the VM",
	"virtualmachines/evacuate":                    "there is no live migration, so there is no evacuation to cancel",
	"virtualmachines/memorydump":                  "memory of guests is not dumped: take the dump in the guest",
	"virtualmachines/migrate":                     "there is no live migration: stop the VM, change nodeSelector or affinity of spec.template, and start it",
	"virtualmachines/objectgraph":                 "there is no graph of objects: read volumes, networks and accessCredentials of spec.template",
	"virtualmachines/portforward":                 "ports are not forwarded: connect to the guest by its network",
	"virtualmachines/removememorydump":            "memory of guests is not dumped, so there is no dump to remove",
	"virtualmachines/removevolume":                "volumes are not removed from a running VM: remove the volume from spec.template, and restart the VM",
	"guestfs":                                     "no image of libguestfs-tools is known: name one, with virtctl guestfs --image",
	"start-cluster-profiler":                      "there is no profiler: read the metrics of the manager",
	"stop-cluster-profiler":                       "there is no profiler: read the metrics of the manager",
	"dump-cluster-profiler":                       "there is no profiler: read the metrics of the manager",
}

// notImplemented answers calls that are unserved with 501, and passes all others on. Routes would
// put them into OpenAPI, as if they worked.
func notImplemented(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || info.APIGroup != Group {
			next.ServeHTTP(w, r)
			return
		}
		name := info.Resource
		if info.Subresource != "" {
			name += "/" + info.Subresource
		}
		why, is := unserved[name]
		if !is {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: reasonNotImplemented,
			Message: "virtwright does not serve " + name + ": " + why,
			Details: &metav1.StatusDetails{Group: Group, Kind: info.Resource, Name: info.Name},
		}})
	})
}
