package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// A Stamp says who asked for a template by annotating a VirtualMachine. It is an
// annotation of that VM's.
type Stamp struct {
	Requester
	// VMUID is the VM's UID; empty where the VM was made with the annotation, and
	// so had none.
	VMUID string
	// Value is the annotation's: the stamp is for no other.
	Value string
}

// stamped is a Stamp in JSON. A policy compares its text with what it makes of
// the request itself: the order of the fields matters, and none is left out.
type stamped struct {
	Username string            `json:"username"`
	UID      string            `json:"uid"`
	Groups   []string          `json:"groups"`
	Extra    map[string]Values `json:"extra"`
	VMUID    string            `json:"vmUID"`
	Value    string            `json:"value"`
}

// RequesterOf is a user, as API servers know one.
func RequesterOf(user authenticationv1.UserInfo) Requester {
	out := Requester{Username: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if out.Extra == nil {
			out.Extra = map[string]Values{}
		}
		out.Extra[key] = Values(values)
	}
	return out
}

// UserInfo is the requester, as API servers know one.
func (r *Requester) UserInfo() authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: r.Username, UID: r.UID, Groups: r.Groups}
	for key, values := range r.Extra {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = authenticationv1.ExtraValue(values)
	}
	return out
}

// String is the stamp as it stands in the annotation.
func (s Stamp) String() string {
	written := stamped{Username: s.Username, UID: s.UID, Groups: s.Groups, Extra: map[string]Values{}, VMUID: s.VMUID, Value: s.Value}
	if written.Groups == nil {
		written.Groups = []string{}
	}
	for key, values := range s.Extra {
		written.Extra[key] = append(Values{}, values...)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(written); err != nil { // unreachable: texts can be encoded
		return ""
	}
	return string(bytes.TrimSpace(out.Bytes()))
}

// ParseStamp reads an annotation. What String would write otherwise is no stamp:
// there is one way to read each.
func ParseStamp(text string) (Stamp, error) {
	var read stamped
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return Stamp{}, fmt.Errorf("cannot read who asks for a template: %w", err)
	}
	stamp := Stamp{
		Requester: Requester{Username: read.Username, UID: read.UID, Groups: read.Groups, Extra: read.Extra},
		VMUID:     read.VMUID, Value: read.Value,
	}
	if stamp.Username == "" || stamp.String() != text {
		return Stamp{}, errors.New("cannot read who asks for a template: it is no stamp as virtwright writes them")
	}
	return stamp, nil
}
