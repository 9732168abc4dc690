package tlsconf

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/youmark/pkcs8"
)

// pemBlock finds blocks in any text. Unlike encoding/pem's, their lines may have become one
// line, as they do in a properties file.
var pemBlock = regexp.MustCompile(`(?s)-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END ([A-Z0-9 ]+)-----`)

type block struct {
	kind string
	der  []byte
}

func pemBlocks(text []byte) (out []block, err error) {
	for _, m := range pemBlock.FindAllSubmatch(text, -1) {
		kind := string(m[1])
		if kind != string(m[3]) {
			return nil, fmt.Errorf("a block begins as %s and ends as %s", kind, m[3])
		}
		if strings.ContainsRune(string(m[2]), ':') {
			return nil, fmt.Errorf("%s has headers, as old encrypted keys do: only PKCS#8 can be encrypted", kind)
		}
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(m[2])), ""))
		if err != nil {
			return nil, fmt.Errorf("%s is not base64", kind)
		}
		out = append(out, block{kind, der})
	}
	return out, nil
}

func pemCertificates(text []byte) (out []*x509.Certificate, err error) {
	blocks, err := pemBlocks(text)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if !strings.HasSuffix(b.kind, "CERTIFICATE") {
			continue
		}
		c, err := x509.ParseCertificate(b.der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of the PEM cannot be read: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no CERTIFICATE in PEM")
	}
	return out, nil
}

// errKeyPassword is for a key that needs a password, or another one.
var errKeyPassword = errors.New("the key's password is wrong or missing")

func pemKey(text []byte, password secret) (crypto.PrivateKey, error) {
	blocks, err := pemBlocks(text)
	if err != nil {
		return nil, err
	}
	var found []block
	for _, b := range blocks {
		if strings.HasSuffix(b.kind, "PRIVATE KEY") {
			found = append(found, b)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d PRIVATE KEY in PEM, not one", len(found))
	}
	b := found[0]
	switch {
	case b.kind == "ENCRYPTED PRIVATE KEY" && password.value() == "":
		return nil, errKeyPassword
	case b.kind == "ENCRYPTED PRIVATE KEY":
		return decryptKey(b.der, password)
	case password.value() != "":
		return nil, errors.New("the key is not encrypted: it has no password")
	case b.kind == "RSA PRIVATE KEY":
		return orUnreadable(x509.ParsePKCS1PrivateKey(b.der))
	case b.kind == "EC PRIVATE KEY":
		return orUnreadable(x509.ParseECPrivateKey(b.der))
	}
	return orUnreadable(x509.ParsePKCS8PrivateKey(b.der))
}

// decryptKey gives no cause: a wrong password shows in many ways.
func decryptKey(der []byte, password secret) (key crypto.PrivateKey, err error) {
	key, _, err = pkcs8.ParsePrivateKey(der, []byte(password.value()))
	if err != nil && strings.Contains(err.Error(), "unsupported") {
		return nil, fmt.Errorf("the key's encryption: %w", err)
	}
	if err != nil {
		return nil, errKeyPassword
	}
	return key, nil
}

// orUnreadable says no more of a key than that it cannot be read.
func orUnreadable[K crypto.PrivateKey](key K, err error) (crypto.PrivateKey, error) {
	if err != nil {
		return nil, errors.New("the private key cannot be read: it is none that is known")
	}
	return key, nil
}
