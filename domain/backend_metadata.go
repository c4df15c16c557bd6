package domain

import (
	"encoding/xml"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// MetadataNamespace is the XML name space of what virtwright writes into a
// domain's metadata.
const MetadataNamespace = "http://virtwright.dev/domain/v1"

// An Owner is the instance that a domain was made of, as the domain's metadata
// say it.
type Owner struct {
	// Namespace and Name are the instance's.
	Namespace string `xml:"namespace"`
	Name      string `xml:"name"`
	// UID is the instance's; empty for one that no API server has stored.
	UID types.UID `xml:"uid,omitempty"`
}

// ownerElement is how an owner is written.
type ownerElement struct {
	XMLName xml.Name `xml:"http://virtwright.dev/domain/v1 instance"`
	Owner
}

// metadata names the domain, as KubeVirt does, namespace_name, and says whose
// it is, so that an agent knows its own domains from others.
func (h *host) metadata() {
	owner := Owner{Namespace: h.vmi.Namespace, Name: h.vmi.Name, UID: h.vmi.UID}
	text, err := xml.MarshalIndent(ownerElement{Owner: owner}, "    ", "  ")
	if err != nil {
		h.refuse(field.InternalError(field.NewPath("metadata"), fmt.Errorf("cannot write the domain's metadata: %w", err)))
		return
	}
	h.domain.Name = Name(owner.Namespace, owner.Name)
	h.domain.Metadata = &libvirtxml.DomainMetadata{XML: "\n" + string(text) + "\n  "}
}

// Name is the name of an instance's domain. No two instances share one:
// names of Kubernetes have no underscore.
func Name(namespace, name string) string { return namespace + "_" + name }

// OwnerOf is the instance that a domain was made of; false where its metadata
// name none.
func OwnerOf(d *libvirtxml.Domain) (Owner, bool) {
	if d.Metadata == nil {
		return Owner{}, false
	}
	var all struct {
		Instances []ownerElement `xml:"http://virtwright.dev/domain/v1 instance"`
	}
	if err := xml.Unmarshal([]byte("<metadata>"+d.Metadata.XML+"</metadata>"), &all); err != nil || len(all.Instances) == 0 {
		return Owner{}, false
	}
	return all.Instances[0].Owner, true
}
