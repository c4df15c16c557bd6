package limits

import "bytes"

// The estimated memory of a JSON body, in bytes. Its bytes are copied several times; each list,
// field and element becomes several Go values, and each object several maps. Go writes an HTML
// character as six bytes.
const (
	perByte   = 6
	perPart   = 512
	perObject = 1280
	perHTML   = 12
)

// costOf estimates the memory of a JSON body in bytes. It counts separators, including those inside
// strings, so it never counts too few parts.
func costOf(json []byte) int64 {
	count := func(c byte) int64 { return int64(bytes.Count(json, []byte{c})) }
	return int64(len(json))*perByte + (count(',')+count('['))*perPart + count('{')*perObject +
		(count('<')+count('>')+count('&'))*perHTML
}
