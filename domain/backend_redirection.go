package domain

import "fmt"

// redirection puts each USB device of a client on a socket, under KubeVirt's
// names.
func (h *host) redirection() {
	for i := range h.devices.RedirDevs {
		h.devices.RedirDevs[i].Source = bound(h.socket(fmt.Sprintf("virt-usbredir-%d", i), devicesAt.Child("clientPassthrough")))
	}
}
