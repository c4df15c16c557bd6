package validationtest

// Unrendered lists fixtures, as RULE/NAME, that all rules admit but that cannot be rendered as a
// domain, each with a part of the error. A test of package webhooks compares it with the renderer.
var Unrendered = map[string]string{
	"cpu-topology-possible/large":          "must not be more than 255 in all",
	"disk-pci-address/hexadecimal":         "must be in the PCI domain 0000",
	"disk-pci-virtio/on virtio":            "must be in slot 00",
	"hugepages-page-size/with an exponent": "a power of two such as 2Mi or 1Gi",
	"ignition-enabled/enabled":             "a file that KubeVirt's own launcher writes",
	"interface-one-binding/a plugin":       "binding plugins are programs that KubeVirt runs",
	"interface-pci-address/an address":     "must be in slot 00",
	"network-claim-binding/a plugin":       "binding plugins are programs that KubeVirt runs",
	"single-volumes/one of each":           "memory dumps are taken by KubeVirt's own subresource",
	"volume-has-device/a memory dump":      "memory dumps are taken by KubeVirt's own subresource",
}
