package domain

import (
	"bytes"
	"encoding/xml"

	"k8s.io/apimachinery/pkg/types"
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

// ownerElement is how an owner is read.
type ownerElement struct {
	XMLName xml.Name `xml:"http://virtwright.dev/domain/v1 instance"`
	Owner
}

// metadata names the domain, as KubeVirt does, namespace_name, and says whose
// it is, so that an agent knows its own domains from others.
func (h *host) metadata() {
	owner := Owner{Namespace: h.vmi.Namespace, Name: h.vmi.Name, UID: h.vmi.UID}
	var text bytes.Buffer // an encoder costs more than the rest of the stage
	text.WriteString("\n    <instance xmlns=\"" + MetadataNamespace + "\">\n")
	for _, entry := range [][2]string{{"namespace", owner.Namespace}, {"name", owner.Name}, {"uid", string(owner.UID)}} {
		if entry[1] == "" && entry[0] == "uid" {
			continue
		}
		text.WriteString("      <" + entry[0] + ">")
		_ = xml.EscapeText(&text, []byte(entry[1])) // a Buffer takes everything
		text.WriteString("</" + entry[0] + ">\n")
	}
	text.WriteString("    </instance>\n  ")
	h.domain.Name = Name(owner.Namespace, owner.Name)
	h.domain.Metadata = &libvirtxml.DomainMetadata{XML: text.String()}
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
