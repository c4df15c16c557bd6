package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// A RequesterRecord records who asked for a template by annotating a VirtualMachine. It is itself
// stored as an annotation of that VM.
//
// +kubebuilder:object:generate=false
type RequesterRecord struct {
	Requester
	// VMUID is the VM's UID; empty if the VM was created with the annotation.
	VMUID string
	// Value is the annotation's value. The record is valid for this value only.
	Value string
}

// recordJSON is the JSON form of a RequesterRecord. An admission policy compares its text with one
// that it builds itself, so the order of the fields matters and no field is omitted.
type recordJSON struct {
	Username string            `json:"username"`
	UID      string            `json:"uid"`
	Groups   []string          `json:"groups"`
	Extra    map[string]Values `json:"extra"`
	VMUID    string            `json:"vmUID"`
	Value    string            `json:"value"`
}

// RequesterOf converts the user of an admission request.
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

// UserInfo converts the requester for an access review.
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

// String returns the value of the annotation.
func (r RequesterRecord) String() string {
	written := recordJSON{
		Username: r.Username, UID: r.UID, Groups: append([]string{}, r.Groups...), Extra: map[string]Values{},
		VMUID: r.VMUID, Value: r.Value,
	}
	for key, values := range r.Extra {
		written.Extra[key] = append(Values{}, values...)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(written); err != nil { // unreachable: strings can be encoded
		return ""
	}
	return string(bytes.TrimSpace(out.Bytes()))
}

// ParseRequesterRecord parses the value of the annotation. It accepts only the exact text that
// String returns, so that no two texts mean the same record.
func ParseRequesterRecord(text string) (RequesterRecord, error) {
	var read recordJSON
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return RequesterRecord{}, fmt.Errorf("cannot read who requested the template: %w", err)
	}
	record := RequesterRecord{
		Requester: Requester{Username: read.Username, UID: read.UID, Groups: read.Groups, Extra: read.Extra},
		VMUID:     read.VMUID, Value: read.Value,
	}
	if record.Username == "" || record.String() != text {
		return RequesterRecord{}, errors.New("cannot read who requested the template: not in the form that virtwright writes")
	}
	return record, nil
}
