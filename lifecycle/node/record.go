package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// recordNamespace is the XML name space of what the agent notes in a domain's
// metadata, and recordKey the name of the element.
const (
	recordNamespace = "http://virtwright.dev/node/v1"
	recordKey       = "agent"
)

// A Record is what the agent notes in a domain's metadata, so that it knows it
// again when it comes back: the domain outlives the agent.
type Record struct {
	// Node is the name of the node whose agent has made the domain. No other
	// agent touches it; one without a name is anybody's who finds it.
	Node string `json:"node,omitempty"`
	// Spec is the hash of the spec that the domain was made of.
	Spec string `json:"spec"`
	// Frontend and Backend are the profiles that had a part, strongest first.
	Frontend []string `json:"frontend,omitempty"`
	Backend  []string `json:"backend,omitempty"`
	// Decisions are what stage 3 resolved, chose and went without: with the
	// domain itself all that it takes to know why the guest sees what it sees.
	Decisions []domain.Decision `json:"decisions,omitempty"`
	// Started says that the domain was told to start: from then on its guest may
	// have run, whatever libvirt still knows.
	Started bool `json:"started,omitempty"`
	// Power is the ID of the last power request that was done.
	Power string `json:"power,omitempty"`
	// Released says that a guest that was started paused was let go.
	Released bool `json:"released,omitempty"`
}

// begin notes in a domain that was just defined that this node is about to
// start it, before it does.
func (c *Controller) begin(ctx context.Context, guest *libvirtd.Domain) error {
	record := recordOf(&guest.XML)
	record.Node, record.Started = c.Node, true
	return c.write(ctx, guest, &record)
}

// unbegin takes that back of a domain of which libvirt says that it could not
// be started. Where it cannot say so, the guest may have run.
func (c *Controller) unbegin(ctx context.Context, name string) error {
	guest, err := c.Libvirt.Find(ctx, name)
	if err != nil || guest == nil || guest.State != libvirtd.NotStarted && guest.State != libvirtd.Off {
		return err
	}
	record := recordOf(&guest.XML)
	if !record.Started {
		return nil
	}
	record.Started = false
	return c.write(ctx, guest, &record)
}

// write writes a record into a domain.
func (c *Controller) write(ctx context.Context, guest *libvirtd.Domain, record *Record) error {
	text, err := record.element()
	if err != nil {
		return err
	}
	return c.Libvirt.Note(ctx, guest, recordKey, recordNamespace, fmt.Sprintf("<%s>%s</%s>", recordKey, text, recordKey))
}

// element is the record as metadata.
func (r *Record) element() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("cannot write the agent's record: %w", err)
	}
	var out bytes.Buffer
	if err := xml.EscapeText(&out, text); err != nil {
		return "", fmt.Errorf("cannot write the agent's record: %w", err)
	}
	return out.String(), nil
}

// attach puts the record beside what names the owner.
func (r *Record) attach(d *libvirtxml.Domain) error {
	text, err := r.element()
	if err != nil {
		return err
	}
	if d.Metadata == nil {
		d.Metadata = &libvirtxml.DomainMetadata{}
	}
	d.Metadata.XML += fmt.Sprintf("<%s xmlns=%q>%s</%s>", recordKey, recordNamespace, text, recordKey)
	return nil
}

// recordOf is the record of a domain; an empty one where there is none that
// can be read.
func recordOf(d *libvirtxml.Domain) Record {
	var out Record
	if d.Metadata == nil {
		return out
	}
	var all struct {
		Text []string `xml:"http://virtwright.dev/node/v1 agent"`
	}
	if err := xml.Unmarshal([]byte("<metadata>"+d.Metadata.XML+"</metadata>"), &all); err == nil && len(all.Text) > 0 {
		_ = json.Unmarshal([]byte(all.Text[0]), &out) // what cannot be read says nothing
	}
	return out
}

// specHash stands for the spec of an instance.
func specHash(vmi *kubevirtv1.VirtualMachineInstance) string {
	text, err := json.Marshal(vmi.Spec)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
