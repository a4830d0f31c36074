//! Serial numbers: 16 random octets, positive (CHECKS I2).

use x509_cert::serial_number::SerialNumber;

use crate::encoding::hex;
use crate::ports::{BackendError, Entropy};

/// A certificate serial. On the wire and in records it is 32 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial([u8; 16]);

impl Serial {
    /// A fresh one. The first two bits are 01: positive, and always 16 octets long in DER; 126 bits are random.
    pub fn random(entropy: &impl Entropy) -> Result<Self, BackendError> {
        let mut octets = [0; 16];
        entropy.fill(&mut octets)?;
        if let Some(first) = octets.first_mut() {
            *first = (*first & 0x3f) | 0x40;
        }
        Ok(Self(octets))
    }

    /// From 32 lower-case hex digits; zero and anything whose DER would be negative or longer than 16 octets is `None`.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let mut octets = [0; 16];
        for (octet, pair) in octets.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| match digit {
                b'0'..=b'9' | b'a'..=b'f' => char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()),
                _ => None,
            });
            *octet = (high? << 4) | low?;
        }
        Self::from_octets(octets)
    }

    /// From the serial of a certificate; `None` unless positive and at most 16 octets.
    pub fn from_x509(serial: &SerialNumber) -> Option<Self> {
        let bytes = serial.as_bytes();
        let mut octets = [0; 16];
        let start = octets.len().checked_sub(bytes.len())?;
        octets.get_mut(start..)?.copy_from_slice(bytes);
        Self::from_octets(octets)
    }

    fn from_octets(octets: [u8; 16]) -> Option<Self> {
        let positive = octets.first().is_some_and(|first| first & 0x80 == 0);
        (positive && octets != [0; 16]).then_some(Self(octets))
    }

    /// 32 lower-case hex digits.
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// For a certificate or a CRL entry.
    pub fn to_x509(self) -> der::Result<SerialNumber> {
        SerialNumber::new(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Constant(u8);

    impl Entropy for Constant {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
            buffer.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn random_ones_are_positive_and_sixteen_octets_long() {
        for fill in [0, 0x7f, 0x80, 0xff] {
            let serial = Serial::random(&Constant(fill)).unwrap();
            assert_eq!(serial.to_x509().unwrap().as_bytes().len(), 16);
            assert_eq!(Serial::from_x509(&serial.to_x509().unwrap()), Some(serial));
            assert_eq!(Serial::from_hex(&serial.to_hex()), Some(serial));
        }
    }

    #[test]
    fn text_is_strict_and_short_serials_are_padded() {
        let small = format!("{:032x}", 0x1234);
        assert_eq!(Serial::from_x509(&SerialNumber::new(&[0x12, 0x34]).unwrap()).unwrap().to_hex(), small);
        for bad in ["", "12", &"0".repeat(32), &"f".repeat(32), &"7F".repeat(16), &"+1".repeat(16), &"7".repeat(33)] {
            assert_eq!(Serial::from_hex(bad), None, "{bad}");
        }
        assert_eq!(Serial::from_x509(&SerialNumber::new(&[0x71; 17]).unwrap()), None);
    }
}
