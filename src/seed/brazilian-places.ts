export type Place = {
  city: string;
  state: string;
  region: 'Sudeste' | 'Sul' | 'Nordeste' | 'Centro-Oeste' | 'Norte';
  areaCode: string;
  /** First three digits of its postal codes. */
  postalPrefix: string;
  weight: number;
};

export const PLACES: readonly Place[] = [
  place('São Paulo', 'SP', 'Sudeste', '11', '013', 240),
  place('Rio de Janeiro', 'RJ', 'Sudeste', '21', '220', 125),
  place('Belo Horizonte', 'MG', 'Sudeste', '31', '301', 80),
  place('Curitiba', 'PR', 'Sul', '41', '800', 65),
  place('Brasília', 'DF', 'Centro-Oeste', '61', '703', 60),
  place('Porto Alegre', 'RS', 'Sul', '51', '900', 52),
  place('Salvador', 'BA', 'Nordeste', '71', '401', 50),
  place('Campinas', 'SP', 'Sudeste', '19', '130', 48),
  place('Fortaleza', 'CE', 'Nordeste', '85', '600', 44),
  place('Recife', 'PE', 'Nordeste', '81', '500', 40),
  place('Goiânia', 'GO', 'Centro-Oeste', '62', '740', 36),
  place('Florianópolis', 'SC', 'Sul', '48', '880', 36),
  place('Vitória', 'ES', 'Sudeste', '27', '290', 26),
  place('Ribeirão Preto', 'SP', 'Sudeste', '16', '140', 24),
  place('Santo André', 'SP', 'Sudeste', '11', '090', 22),
  place('São José dos Campos', 'SP', 'Sudeste', '12', '122', 22),
  place('Belém', 'PA', 'Norte', '91', '660', 20),
  place('Manaus', 'AM', 'Norte', '92', '690', 18),
  place('Niterói', 'RJ', 'Sudeste', '21', '240', 18),
  place('Uberlândia', 'MG', 'Sudeste', '34', '384', 16),
  place('Joinville', 'SC', 'Sul', '47', '892', 14),
  place('João Pessoa', 'PB', 'Nordeste', '83', '580', 13),
  place('Natal', 'RN', 'Nordeste', '84', '590', 12),
  place('São Luís', 'MA', 'Nordeste', '98', '650', 11),
  place('Maceió', 'AL', 'Nordeste', '82', '570', 10),
  place('Cuiabá', 'MT', 'Centro-Oeste', '65', '780', 9),
  place('Criciúma', 'SC', 'Sul', '48', '888', 6),
  place('Palmas', 'TO', 'Norte', '63', '770', 4),
];

export const PLACE_WEIGHTS = PLACES.map(({ weight }) => weight);

export const NEIGHBORHOODS = [
  'Centro',
  'Jardim América',
  'Boa Vista',
  'Nossa Senhora da Conceição',
  'Santa Luzia',
  'Vila São José',
  'Bela Vista',
  'Parque das Nações',
  'Água Verde',
  'Santo Antônio',
  'Jardim das Acácias',
  "Pau d'Alho",
] as const;

export const STREETS = [
  'Rua das Laranjeiras',
  'Avenida Getúlio Vargas',
  'Rua XV de Novembro',
  'Rua São João',
  'Avenida Brasil',
  'Travessa da Saudade',
  'Rua Tiradentes',
  'Alameda dos Ipês',
  'Rua Dom Pedro II',
  'Avenida Independência',
  'Rua José Bonifácio',
  'Rua Sete de Setembro',
  'Estrada do Açude',
  'Praça da República',
] as const;

function place(
  city: string,
  state: string,
  region: Place['region'],
  areaCode: string,
  postalPrefix: string,
  weight: number,
): Place {
  return { city, state, region, areaCode, postalPrefix, weight };
}
