#!/bin/sh
# Checks a release offline: the signature of checksums.txt, the checksum of each file, and the
# signature and the subjects of the provenance. It needs openssl, and sha256sum or shasum.
#
#	sh verify.sh PUBLIC-KEY [FOLDER]
#
# The default folder is the current one. An attacker who can change a release can also change this
# script and a key that comes with it: take both from elsewhere, or read the script first.
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: sh verify.sh PUBLIC-KEY [FOLDER]" >&2
	exit 2
fi
if ! openssl pkey -pubin -in "$1" -noout 2>/dev/null; then
	echo "$1: not a public key in PEM" >&2
	exit 2
fi
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cp "$1" "$temporary/key"
cd "${2:-.}"

failed=
bad() {
	echo "$1: $2" >&2
	failed=true
}

sha256() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# verify FILE SIGNATURE succeeds if the signature, in base64, is of the file.
verify() {
	printf '%s' "$2" | openssl base64 -d -A >"$temporary/signature" &&
		openssl dgst -sha256 -verify "$temporary/key" -signature "$temporary/signature" "$1" >/dev/null 2>&1
}

for file in checksums.txt checksums.txt.sig provenance.intoto.jsonl; do
	[ -f "$file" ] || bad "$file" "missing: the release is not signed, or not complete"
done
[ -z "$failed" ] || exit 1

if ! verify checksums.txt "$(cat checksums.txt.sig)"; then
	bad checksums.txt "changed, or signed with another key than $1"
	exit 1
fi

while read -r sum file; do
	if [ ! -f "$file" ]; then
		bad "$file" "missing"
	elif [ "$(sha256 <"$file")" != "$sum" ]; then
		bad "$file" "changed: its SHA-256 is not that of checksums.txt"
	fi
done <checksums.txt

cut -c 67- checksums.txt >"$temporary/names"
for file in * .[!.]* ..?*; do
	case $file in checksums.txt | checksums.txt.sig | provenance.intoto.jsonl) continue ;; esac
	[ -e "$file" ] || [ -L "$file" ] || continue
	grep -qxF -e "$file" "$temporary/names" || bad "$file" "not part of the release"
done

# The signature is of "DSSEv1", the type of the payload and the payload, each with its length.
field() { sed -n 's/.*"'"$1"'":"\([A-Za-z0-9+/=]*\)".*/\1/p' provenance.intoto.jsonl; }
field payload | openssl base64 -d -A >"$temporary/payload"
{
	printf 'DSSEv1 28 application/vnd.in-toto+json %d ' $(($(wc -c <"$temporary/payload")))
	cat "$temporary/payload"
} >"$temporary/signed"
if ! verify "$temporary/signed" "$(field sig)"; then
	bad provenance.intoto.jsonl "changed, or signed with another key than $1"
	exit 1
fi
awk -F '"' '$2 == "sha256" { sum = $4 } $2 == "name" { print sum "  " $4 }' "$temporary/payload" >"$temporary/subjects"
for file in $(cat "$temporary/subjects" checksums.txt | sort | uniq -u | cut -c 67- | sort -u); do
	bad provenance.intoto.jsonl "not the provenance of this $file"
done

[ -z "$failed" ] || exit 1
echo "$(grep -c . checksums.txt) files are those that $1 signed, built from commit" \
	"$(awk -F '"' '$2 == "gitCommit" { print $4 }' "$temporary/payload")"
