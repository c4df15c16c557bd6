package provenance

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/json"

	"github.com/google/go-cmp/cmp"
)

func TestPathText(t *testing.T) {
	for text, want := range map[string]Path{
		"spec.template":                      Of("spec", "template"),
		"a.disks[root].bus":                  {{Name: "a"}, {Name: "disks"}, {Name: "root", Kind: Element}, {Name: "bus"}},
		`nodeSelector["kubernetes.io/arch"]`: {{Name: "nodeSelector"}, {Name: "kubernetes.io/arch"}},
		"volumes[*].hostDisk":                {{Name: "volumes"}, {Name: "*", Kind: AnyElement}, {Name: "hostDisk"}},
		"tolerations[a.b/c,Equal,,No]":       {{Name: "tolerations"}, {Name: "a.b/c,Equal,,No", Kind: Element}},
		`disks[a\]b]`:                        {{Name: "disks"}, {Name: "a]b", Kind: Element}},
	} {
		got, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", ".", "a.", "a..b", "a[", "a[]", `a["b`, `a["b"`, "a]", "a b", "a[b"} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%q was read as %v; want an error", text, p)
		}
	}
}

// FuzzParsePath: the text of a parsed path parses to the same path.
func FuzzParsePath(f *testing.F) {
	f.Add("spec.template.spec.domain.devices.disks[root].disk.bus")
	f.Add(`metadata.labels["a\"b"]`)
	f.Add(`x[\]\\*]`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil {
			t.Fatalf("%q is written as %q, which is no path: %v", text, p, err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("%q: %s", text, diff)
		}
	})
}

func TestHasPrefix(t *testing.T) {
	parse := func(text string) Path {
		p, err := ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		path, prefix string
		want         bool
	}{
		{"a.b", "a", true}, {"a", "a.b", false}, {"a.disks[x].c", "a.disks[*]", true}, {"a.disks", "a.disks[*]", false}, {"a.b", "a.c", false},
	} {
		if got := parse(c.path).HasPrefix(parse(c.prefix)); got != c.want {
			t.Errorf("%s under %s is %v", c.path, c.prefix, got)
		}
	}
}

// TestRoundTrip: decoding and encoding gives the same text, for records with hostile names and
// values.
func TestRoundTrip(t *testing.T) {
	names := []string{"a", "[x", `\y`, ".", "~", "kubernetes.io/arch", "ä\"<&", "="}
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		rec := New()
		rec.Snapshot = "5e4d"
		for _, role := range []Role{Default, Override, Remove, Forbid, Legacy, Platform} {
			rec.AddSource(Source{Preset: "cluster/p", Generation: int64(1 + r.Intn(3)), Role: role, Hash: []string{"", "0a1b2c3d"}[r.Intn(2)]})
		}
		for range 1 + r.Intn(30) {
			var p Path
			for range 1 + r.Intn(5) {
				p = append(p, Segment{Name: names[r.Intn(len(names))], Kind: Kind(r.Intn(2))})
			}
			n := rec.Set(p, int32(r.Intn(len(rec.Sources))))
			switch r.Intn(4) {
			case 0:
				n.Overruled, n.UserValue = true, map[string]any{"x": []any{int64(1), "<"}}
			case 1:
				n.Overruled, n.TooLarge = true, true
			}
		}
		text, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(text)
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, text)
		}
		if got, err := again.Encode(); err != nil || got != text {
			t.Fatalf("seed %d: %v\n%s\nbecame\n%s", seed, err, text, got)
		}
		for p, n := range rec.Decided() {
			if s, ok := again.SourceOf(p); !ok || s != rec.Sources[n.Source] {
				t.Errorf("seed %d: %s is by %v, was by %v", seed, p, s, rec.Sources[n.Source])
			}
		}
	}
}

// TestHashes: a record has one hash for each source, older records have none, and an older program
// reads a newer record.
func TestHashes(t *testing.T) {
	rec := New()
	rec.Set(Of("a"), rec.AddSource(Source{Preset: "old", Generation: 2}))
	rec.Set(Of("b"), rec.AddSource(Source{Preset: "p", Generation: 3, Hash: "0a1b2c3d"}))
	rec.Set(Of("c"), rec.AddSource(Source{Preset: "acpi", Role: Platform}))
	text, err := rec.Encode()
	if want := `{"v":1,"snapshot":"","by":["old@2:default","p@3:default","acpi:platform"],"hashes":["","0a1b2c3d"],"set":{"a":0,"b":1,"c":2}}`; err != nil || text != want {
		t.Fatalf("want %s, got %s, %v", want, text, err)
	}
	for name, decode := range map[string]func(string) (*Record, error){"Decode": Decode, "DecodeSources": DecodeSources} {
		again, err := decode(text)
		if err != nil || !slices.Equal(again.Sources, rec.Sources) {
			t.Errorf("%s: want %v, got %v, %v", name, rec.Sources, again, err)
		}
	}
	var before struct { // as the version before this one reads it
		Version  int            `json:"v"`
		Snapshot string         `json:"snapshot"`
		By       []string       `json:"by"`
		Set      map[string]any `json:"set"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), &before); err != nil || len(before.By) != 3 || len(before.Set) != 3 {
		t.Errorf("got %v, %v", before, err)
	}
	again, err := Decode(`{"v":1,"by":["p@3:default"],"hashes":["x","y"],"set":{"b":0}}`)
	if err != nil || len(again.Sources) != 1 {
		t.Errorf("more hashes than sources: got %v, %v", again, err)
	}
}

func TestLimits(t *testing.T) {
	rec := New()
	n := rec.Set(Of("a"), rec.AddSource(Source{Preset: "p", Generation: 1}))
	n.Overruled, n.UserValue = true, strings.Repeat("x", maxOverruledBytes)
	text, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(text)
	if err != nil || !again.At(Of("a")).TooLarge {
		t.Errorf("a large value must be recorded as lost, got %s, %v", text, err)
	}
	for range 9000 {
		rec.Set(Of("a", strings.Repeat("y", rand.Intn(50)+1)+strings.Repeat("z", rand.Intn(50))), 0)
	}
	var large tooLargeError
	if _, err := rec.Encode(); !errors.As(err, &large) || large.Bytes <= maxBytes {
		t.Errorf("want an error for a record that is too large, got %v", err)
	}
}

// FuzzDecode: anything may stand in an annotation, and nothing panics.
func FuzzDecode(f *testing.F) {
	f.Add(`{"v":1,"snapshot":"1f","by":["cluster/windows@3:default","acpi:platform"],"set":{"spec":{"running":0,".":1,"disks":{"[a]":{"~":0,"bus":[0,"x"]}}}}}`)
	f.Add(`{"v":1,"by":["x@0:default"],"set":{"a":[]}}`)
	f.Add(`{"v":1,"by":[],"set":{"a":0}}`)
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := Decode(text)
		if err != nil {
			return
		}
		once, err := rec.Encode()
		if err != nil {
			return
		}
		again, err := Decode(once)
		if err != nil {
			t.Fatalf("%q is written as %q, which cannot be read: %v", text, once, err)
		}
		if twice, _ := again.Encode(); twice != once {
			t.Fatalf("%q is written as %q and then as %q", text, once, twice)
		}
	})
}
