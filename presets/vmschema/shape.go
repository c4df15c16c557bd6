package vmschema

// A Shape is the kind of value that a field has.
type Shape uint8

// Shapes of objects, lists and scalars.
const (
	Any         Shape = iota // any value
	Object                   // an object with known fields
	Map                      // an object with fields of any name
	Keyed                    // a list that merges by key
	Atomic                   // a list that is one leaf
	String                   // a string
	Bool                     // a boolean
	Integer                  // a whole number
	Number                   // a number
	Quantity                 // a resource.Quantity
	IntOrString              // an intstr.IntOrString
)

var shapeNames = map[Shape]string{
	Atomic: "a list", String: "a string", Bool: "true or false", Integer: "a whole number",
	Number: "a number", Quantity: "a quantity such as 2Gi or 500m", IntOrString: "a whole number or a string",
}

// String returns what a value of a shape is, such as "a string"; "" for objects.
func (s Shape) String() string { return shapeNames[s] }

// Wanted describes the values of a shape to an author who wrote another one.
func (s Shape) Wanted(v any) string {
	if _, isBool := v.(bool); isBool && s == String {
		return s.String() + "; YAML reads yes, no, on, off, y and n without quotes as true or false"
	}
	return s.String()
}
