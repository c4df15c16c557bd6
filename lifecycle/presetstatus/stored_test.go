package presetstatus

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDecodePage(t *testing.T) {
	for name, tc := range map[string]struct {
		page  string
		items []string
		next  string
		err   error
	}{
		"Last":          {page: `{"apiVersion":"v1","items":[{"a":1},{"b":2}],"kind":"List","metadata":{}}`, items: []string{`{"a":1}`, `{"b":2}`}},
		"MetadataFirst": {page: `{"metadata":{"continue":"x","resourceVersion":"7"},"items":[{}]}`, items: []string{"{}"}, next: "x"},
		"Empty":         {page: `{"items":[]}`},
		"Null":          {page: `{"items":null,"metadata":{"continue":""}}`},
		"CutShort":      {page: `{"items":[{"a":1}]`, items: []string{`{"a":1}`}, err: io.EOF},
		"CutInAnItem":   {page: `{"items":[{"a":`, err: io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			var items []string
			next, err := decodePage(strings.NewReader(tc.page), func(item []byte) error {
				items = append(items, string(item))
				return nil
			})
			if !slices.Equal(items, tc.items) || next != tc.next || !errors.Is(err, tc.err) {
				t.Errorf("got %q, %q, %v", items, next, err)
			}
		})
	}
	stop := errors.New("stop")
	if _, err := decodePage(strings.NewReader(`{"items":[{},{}]}`), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
